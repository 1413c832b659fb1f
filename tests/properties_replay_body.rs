//! However a stream is split and wherever attempts stop: each sends the same, or nothing.
#![cfg(all(not(loom), feature = "http"))]

mod support;

use bytes::Bytes;
use http_body::Body;
use proptest::prelude::*;
use support::body::{Event, Scripted, Sent, next, read, trailers};
use tower_composure::http::ReplayBody;

type Replayed = ReplayBody<Scripted>;

const ALL: usize = usize::MAX;

fn data(bytes: &'static str) -> Sent {
    Sent::Data(Bytes::from_static(bytes.as_bytes()))
}

/// What a stream gives: its frames, and where it makes its reader wait.
fn events() -> impl Strategy<Value = Vec<Event>> {
    let frame = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..40).prop_map(|data| Event::Bytes(data.into())),
        1 => Just(Event::Yield),
    ];
    let end = prop::option::of(Just(Event::Trailers(trailers("x-sum", "12345"))));
    (prop::collection::vec(frame, 0..12), end).prop_map(|(mut events, end)| {
        events.extend(end);
        events
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// However a stream is split, wherever attempts stop, and whatever fits: each sends a prefix of the same frames, the
    /// last all of them, and what cannot be sent whole is refused.
    #[test]
    fn every_attempt_sends_the_same(
        events in events(),
        stops in prop::collection::vec(0..14_usize, 0..5),
        cap in 0..200_usize,
        exact in any::<bool>(),
        visible in any::<bool>(),
    ) {
        support::paused(async || {
            let mut all = read(&mut Box::pin(Scripted::new(events.clone()))).await;
            all.retain(|sent| *sent != data(""));
            let length = all.iter().map(length).sum::<usize>();
            let mut stream = Scripted::new(events.clone());
            if exact {
                stream = stream.exact(length as u64);
            }
            if visible {
                stream = stream.ends_visibly();
            }
            let mut body = Replayed::new(stream, cap);
            let promise = (body.size_hint().lower(), body.size_hint().upper());
            let mut read_so_far = 0;
            for stop in stops.into_iter().chain([ALL]) {
                let copy = body.replay();
                let fits = all[..read_so_far].iter().map(size).sum::<usize>() <= cap;
                let announced = exact && length > cap;
                assert_eq!(copy.is_some(), fits && !announced);
                let hint = (body.size_hint().lower(), body.size_hint().upper());
                assert_eq!(hint, promise, "every attempt announces the same");
                let sent = attempt(&mut body, &all, stop).await;
                read_so_far = read_so_far.max(sent);
                if stop == ALL {
                    assert_eq!(sent, all.len());
                }
                let Some(copy) = copy else {
                    return;
                };
                body = copy;
                if !body.is_replayable() {
                    assert!(all.iter().map(size).sum::<usize>() > cap);
                    let refused = read(&mut body).await;
                    assert!(matches!(&*refused, [Sent::Error(_)]), "{refused:?}");
                    return;
                }
            }
        });
    }
}

/// Reads one attempt's body up to a frame, and checks what it says of itself on the way. How many frames it sent.
async fn attempt(body: &mut Replayed, all: &[Sent], stop: usize) -> usize {
    let mut sent = 0;
    loop {
        let left = all[sent..].iter().map(length).sum::<usize>() as u64;
        let hint = body.size_hint();
        assert!(hint.lower() <= left && hint.upper().is_none_or(|most| most >= left));
        assert!(!body.is_end_stream() || sent == all.len());
        if sent == stop {
            return sent;
        }
        let Some(frame) = next(body).await else {
            assert_eq!(sent, all.len(), "never an early end");
            assert_eq!(body.size_hint().exact(), Some(0));
            return sent;
        };
        // An empty frame says nothing; it goes through, and is not sent again.
        if frame != data("") {
            assert_eq!(frame, all[sent]);
            sent += 1;
        }
    }
}

fn length(sent: &Sent) -> usize {
    match sent {
        Sent::Data(data) => data.len(),
        Sent::Trailers(_) | Sent::Error(_) => 0,
    }
}

/// What a frame counts for.
fn size(sent: &Sent) -> usize {
    match sent {
        Sent::Trailers(fields) => fields.iter().map(|(n, v)| n.as_str().len() + v.len()).sum(),
        other => length(other),
    }
}
