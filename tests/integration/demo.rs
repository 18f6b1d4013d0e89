//! `rooda demo` runs the whole loop.

use crate::harness::Sandbox;

#[test]
fn the_demo_fails_mends_and_succeeds() {
    let sandbox = Sandbox::new();
    let ran = sandbox.rooda(["demo"]).run();
    assert_eq!(ran.code, Some(0), "{ran}");
    insta::assert_snapshot!(ran);
}
