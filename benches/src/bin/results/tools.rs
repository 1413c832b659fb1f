//! Other programs, and what they print.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why there are no results.
pub type Failure = Box<dyn std::error::Error>;

/// The folder of this package.
pub fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Another program of this package, which was built with this one.
pub fn sibling(name: &str) -> Result<PathBuf, Failure> {
    Ok(std::env::current_exe()?.with_file_name(name))
}

/// What a command prints, where it succeeds; its complaints go through.
pub fn output(command: &mut Command) -> Result<String, Failure> {
    eprintln!("{command:?}");
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The same for a program of this package.
pub fn run(name: &str, arguments: &[&str]) -> Result<String, Failure> {
    output(Command::new(sibling(name)?).args(arguments))
}

/// Cargo, in this package or another one.
pub fn cargo(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder).args(arguments);
    command
}
