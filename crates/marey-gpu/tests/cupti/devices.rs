//! Attribution of activities to several devices.

use crate::harness::{Trace, in_own_process, play};

#[test]
fn synchronizations_and_overhead_are_attributed_to_devices() {
    let script = "
        devices 4
        part go {
            launch k device 2
            synchronize device device 2
            launch k device 3
            synchronize stream device 3
            synchronize device device 2
            overhead buffer-flush 500
        }";
    if !in_own_process(synchronizations_and_overhead_are_attributed_to_devices, script) {
        return;
    }
    let trace = Trace::start();
    play("go");
    let recorded = trace.finish();
    let activities: Vec<_> =
        recorded.other_activities.iter().map(|it| (it.0.as_str(), it.1)).collect();
    let expected = [
        ("Context Synchronize", 2),
        ("Stream Synchronize", 3),
        ("Context Synchronize", 2),
        ("Overhead: flush of activity buffers", 2),
    ];
    assert_eq!(activities, expected);
}

#[test]
fn our_own_synchronizations_are_not_recorded() {
    let launches: Vec<_> = (0..16).map(|device| format!("launch k device {device}")).collect();
    let script = format!("devices 16\npart go {{\n{}\n}}", launches.join("\n"));
    if !in_own_process(our_own_synchronizations_are_not_recorded, &script) {
        return;
    }
    let trace = Trace::start();
    for _ in 0..10 {
        play("go");
        trace.advance_phase();
    }
    let recorded = trace.finish();
    assert_eq!(recorded.kernels.len(), 160);
    assert_eq!(recorded.other_activities, []);
}
