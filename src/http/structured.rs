//! The lists of strings with parameters that structured fields are made of (RFC 9651 §4.2). Pure.
//!
//! As strict as the grammar: one wrong byte and the whole field is malformed.

#![warn(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "whatever a server sends must not panic"
)]

/// The value of a parameter, as far as anybody here asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Integer(i64),
    Other,
}

/// Reads a list of strings and gives, for each, its parameters of these names, the last of equal ones counting.
/// `None` where the field is malformed, holds a member that is not a string, or `member` says `None`.
pub(super) fn strings<const N: usize>(
    field: &[u8],
    names: [&str; N],
    mut member: impl FnMut([Option<Value>; N]) -> Option<()>,
) -> Option<()> {
    let mut input = Input { rest: field };
    input.skip(|byte| byte == b' ');
    while !input.rest.is_empty() {
        input.string()?;
        member(input.parameters(names)?)?;
        input.skip(is_white);
        if input.rest.is_empty() {
            return Some(());
        }
        input.expect(b',')?;
        input.skip(is_white);
        if input.rest.is_empty() {
            // A comma announces a member.
            return None;
        }
    }
    Some(())
}

const fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn eat(&mut self, byte: u8) -> bool {
        let eaten = self.peek() == Some(byte);
        if eaten {
            self.next();
        }
        eaten
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.eat(byte).then_some(())
    }

    /// Takes the bytes of a kind. By a pointer, so that it is compiled once.
    fn skip(&mut self, of: fn(u8) -> bool) -> &'a [u8] {
        let end = self.rest.iter().position(|byte| !of(*byte));
        let (taken, rest) = self
            .rest
            .split_at_checked(end.unwrap_or(self.rest.len()))
            .unwrap_or((self.rest, &[]));
        self.rest = rest;
        taken
    }

    /// `*( ";" *SP key [ "=" bare-item ] )`
    fn parameters<const N: usize>(&mut self, names: [&str; N]) -> Option<[Option<Value>; N]> {
        let mut values = [None; N];
        while self.eat(b';') {
            self.skip(|byte| byte == b' ');
            let key = self.key()?;
            let value = if self.eat(b'=') {
                self.bare_item()?
            } else {
                // True.
                Value::Other
            };
            for (name, known) in names.iter().zip(&mut values) {
                if name.as_bytes() == key {
                    *known = Some(value);
                }
            }
        }
        Some(values)
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        let first = self.peek()?;
        (first.is_ascii_lowercase() || first == b'*').then(|| {
            self.skip(|byte| {
                byte.is_ascii_lowercase()
                    || byte.is_ascii_digit()
                    || matches!(byte, b'_' | b'-' | b'.' | b'*')
            })
        })
    }

    fn bare_item(&mut self) -> Option<Value> {
        match self.peek()? {
            b'-' | b'0'..=b'9' => return self.number(),
            b'"' => self.string()?,
            b':' => self.bytes()?,
            b'?' => self.boolean()?,
            b'@' => self.date()?,
            b'%' => self.display_string()?,
            b'*' | b'A'..=b'Z' | b'a'..=b'z' => {
                self.skip(is_token);
            }
            _ => return None,
        }
        Some(Value::Other)
    }

    /// An integer of at most 15 digits, or a decimal of at most 12 and 3.
    fn number(&mut self) -> Option<Value> {
        let negative = self.eat(b'-');
        let whole = self.skip(|byte| byte.is_ascii_digit());
        if !self.eat(b'.') {
            let in_range = (1..=15).contains(&whole.len());
            let size: u64 = std::str::from_utf8(whole).ok()?.parse().ok()?;
            let size = i64::try_from(size).ok()?;
            let signed = if negative { size.checked_neg()? } else { size };
            return in_range.then_some(Value::Integer(signed));
        }
        let fraction = self.skip(|byte| byte.is_ascii_digit());
        let in_range = (1..=12).contains(&whole.len()) && (1..=3).contains(&fraction.len());
        in_range.then_some(Value::Other)
    }

    fn string(&mut self) -> Option<()> {
        self.expect(b'"')?;
        loop {
            match self.next()? {
                b'"' => return Some(()),
                b'\\' => match self.next()? {
                    b'"' | b'\\' => {}
                    _ => return None,
                },
                b' '..=b'~' => {}
                _ => return None,
            }
        }
    }

    fn bytes(&mut self) -> Option<()> {
        self.expect(b':')?;
        self.skip(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
        self.expect(b':')
    }

    fn boolean(&mut self) -> Option<()> {
        self.expect(b'?')?;
        matches!(self.next()?, b'0' | b'1').then_some(())
    }

    fn date(&mut self) -> Option<()> {
        self.expect(b'@')?;
        matches!(self.number()?, Value::Integer(_)).then_some(())
    }

    fn display_string(&mut self) -> Option<()> {
        self.expect(b'%')?;
        self.expect(b'"')?;
        loop {
            match self.next()? {
                b'"' => return Some(()),
                b'%' => {
                    let hexadecimal = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
                    if !hexadecimal(self.next()?) || !hexadecimal(self.next()?) {
                        return None;
                    }
                }
                b' '..=b'~' => {}
                _ => return None,
            }
        }
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
}
