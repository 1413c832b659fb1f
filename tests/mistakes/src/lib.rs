//! The likeliest mistakes do not compile, and what the compiler says of them is readable.
//!
//! The words of a compiler are those of its version, so they are compared with one version only. With any other one,
//! the mistakes still must not compile. `TRYBUILD=overwrite` writes new expectations, which a person then reads.
#![cfg(test)]

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// The compiler that wrote `ui/*.stderr`.
const WORDS_OF: &str = "rustc 1.95.";

/// Where the copies are whose expectations nobody reads.
const COPIES: &str = "MISTAKES_COPIES";

#[test]
fn mistakes_are_explained() {
    if let Some(copies) = env::var_os(COPIES) {
        return compile(Path::new(&copies));
    }
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
    let version = Command::new(rustc).arg("--version").output().unwrap();
    if version.stdout.starts_with(WORDS_OF.as_bytes()) {
        return compile(Path::new("ui"));
    }
    // Told to overwrite what it expects, trybuild only minds that something compiles.
    let copies = env::temp_dir().join(format!("mistakes-{}", std::process::id()));
    fs::create_dir_all(&copies).unwrap();
    for file in fs::read_dir("ui").unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            fs::copy(&path, copies.join(path.file_name().unwrap())).unwrap();
        }
    }
    let again = Command::new(env::current_exe().unwrap())
        .args(["--exact", "mistakes_are_explained"])
        .env(COPIES, &copies)
        .env("TRYBUILD", "overwrite")
        .status()
        .unwrap();
    fs::remove_dir_all(&copies).unwrap();
    assert!(again.success(), "a mistake compiles");
}

fn compile(folder: &Path) {
    trybuild::TestCases::new().compile_fail(folder.join("*.rs"));
}
