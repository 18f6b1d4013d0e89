//! The program. All of it is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(rooda::main())
}
