#![allow(missing_docs, clippy::all, clippy::pedantic, clippy::print_stdout, clippy::unwrap_used)]
use marey_inject::*;
use std::path::Path;
use std::time::{Duration, Instant};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let t = Instant::now();
    let pairs: Vec<(&str, String)> =
        a[4..].chunks(2).map(|c| (c[0].as_str(), c[1].clone())).collect();
    let mut i = Injection::begin(
        a[2].parse().unwrap(),
        Call { package: Path::new(&a[1]), version: "0.1.0", function: &a[3], arguments: &pairs },
    )
    .unwrap_or_else(|e| panic!("{e} {:?}", e.hint()));
    let placed = t.elapsed();
    loop {
        match i.wait(Duration::from_secs(1)).unwrap() {
            Progress::Answered(x) => {
                println!(
                    "{x:?} placed {placed:?} stopped {:?} answered {:?}",
                    i.stopped(),
                    t.elapsed()
                );
                break;
            }
            other => println!("{other:?} stopped {:?}", i.stopped()),
        }
    }
}
