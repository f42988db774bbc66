//! Comma-separated values.

use marey_formats::Format;
use marey_model::args::NewArgs;
use marey_model::context::NodeKind;
use marey_store::row::{ActivityKind, Args, AsyncSpan, GpuActivity, Instant, InstantScope};
use marey_store::{Assembler, NewProcess, Run, Slice};
use proptest::prelude::*;

use crate::dump::export_bytes;

pub(crate) const NASTY: &str = "=cmd|'/c'!A1, \"q\"\r\n;é\u{0}";

/// Returns a run with an operator in a step, the kernel that it launched, and an asynchronous span.
pub(crate) fn run(name: &str) -> (tempfile::TempDir, Run) {
    let folder = tempfile::tempdir().unwrap();
    let mut run = Assembler::new(folder.path());
    let process = run.process(NewProcess {
        pid: 7,
        rank: Some(3),
        host: "h".into(),
        ..NewProcess::default()
    });
    let thread = run.thread(process, 70, "main, \"it\"");
    let mut args = NewArgs::default();
    args.int("n", 5);
    args.text("why", name);
    let args = run.args(&mut args).unwrap();
    let [name_id, kernel_id, track_id] = [name, "kernel", "requests"].map(|text| run.text(text));
    let category_id = Some(run.text("cpu_op"));
    let slice = Slice {
        thread_id: thread,
        start_nanos: 100,
        duration_nanos: 50,
        order: 0,
        kind: NodeKind::Step,
        name_id: run.text("step"),
        step: Some(9),
        is_open: false,
        category_id: None,
        correlation_id: None,
        external_id: None,
        args: Args::default(),
    };
    run.add_slice(&slice.clone()).unwrap();
    run.add_slice(&Slice {
        start_nanos: 110,
        duration_nanos: 20,
        order: 1,
        kind: NodeKind::Operator,
        name_id,
        step: None,
        category_id,
        external_id: Some(4),
        args: args.clone(),
        ..slice
    })
    .unwrap();
    run.add_gpu_activity(&GpuActivity {
        start_nanos: 120,
        duration_nanos: 15,
        process_id: process,
        device: 1,
        stream: 2,
        kind: ActivityKind::Kernel,
        name_id: kernel_id,
        context_id: None,
        correlation_id: Some(6),
        graph_node_id: Some(9),
        grid: Some([1, 2, 3]),
        block: Some([8, 1, 1]),
        registers: Some(40),
        shared_bytes: Some(1024),
        bytes: Some(32),
        category_id: None,
        external_id: Some(4),
        args: Args::default(),
    })
    .unwrap();
    run.add_async_span(&AsyncSpan {
        start_nanos: 105,
        duration_nanos: 1,
        process_id: process,
        track_id,
        name_id,
        is_open: false,
        category_id: None,
        args: Args::default(),
    })
    .unwrap();
    run.add_instant(&Instant {
        time_nanos: 101,
        process_id: process,
        thread_id: None,
        scope: InstantScope::Process,
        name_id,
        category_id: None,
        args,
    })
    .unwrap();
    run.finish(None).unwrap();
    let run = Run::open(folder.path()).unwrap();
    (folder, run)
}

#[test]
fn golden() {
    let (_folder, run) = run("relu");
    let (bytes, left_out) = export_bytes(&run, Format::Csv);
    assert_eq!(
        String::from_utf8(bytes).unwrap(),
        "kind,name,path,start_nanos,duration_nanos,self_nanos,process,rank,thread,thread_name,device,stream,category,args,correlation_id,external_id,is_open,bytes,grid,block,registers,shared_bytes,graph_node_id\n\
        step,step,step,100,50,30,7,3,70,\"main, \"\"it\"\"\",,,,,,,false,,,,,,\n\
        async,relu,requests;relu,105,1,1,7,3,,,,,,,,,false,,,,,,\n\
        operator,relu,step;relu,110,20,20,7,3,70,\"main, \"\"it\"\"\",,,cpu_op,\"{\"\"n\"\":5,\"\"why\"\":\"\"relu\"\"}\",,4,false,,,,,,\n\
        kernel,kernel,step;relu;kernel,120,15,15,7,3,,,1,2,,,6,4,,32,1x2x3,8x1x1,40,1024,9\n"
    );
    assert_eq!(left_out.into_iter().collect::<Vec<_>>(), [("instants", 1), ("step numbers", 1)]);
}

fn check(name: &str) -> Result<(), TestCaseError> {
    let (_folder, run) = run(name);
    let (bytes, _) = export_bytes(&run, Format::Csv);
    let mut csv = csv::Reader::from_reader(&*bytes);
    let rows: Vec<csv::StringRecord> = csv.records().map(Result::unwrap).collect();
    prop_assert_eq!(rows.len(), 4);
    prop_assert_eq!(&rows[1][1], name);
    prop_assert_eq!(&rows[2][2], format!("step;{name}"));
    let args: serde_json::Value = serde_json::from_str(&rows[2][13]).unwrap();
    prop_assert_eq!(&args["why"], name);
    Ok(())
}

#[test]
fn names_are_exact() {
    for name in [NASTY, "", "-1", "@SUM(1)", "\"", "\u{feff}", &"x".repeat(100_000)] {
        check(name).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn any_name_is_exact(name: String) {
        check(&name)?;
    }
}
