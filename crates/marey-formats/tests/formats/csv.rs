//! Comma-separated values.

use marey_formats::Format;
use marey_model::args::NewArgs;
use marey_model::context::NodeKind;
use marey_store::row::{GpuActivity, Instant};
use marey_store::{NewProcess, Run, Slice};
use proptest::prelude::*;

use crate::build::{async_span, build_run, kernel, slice};
use crate::dump::export_bytes;

pub(crate) const SPECIAL_CHARACTERS: &str = "=cmd|'/c'!A1, \"q\"\r\n;é\u{0}";

/// Returns a run with an operator in a step, the kernel that it launched, and an asynchronous span.
pub(crate) fn run(name: &str) -> (tempfile::TempDir, Run) {
    build_run(|run| {
        let process = run.add_process(NewProcess {
            pid: 7,
            rank: Some(3),
            host: "h".into(),
            ..NewProcess::default()
        });
        let thread = run.add_thread(process, 70, "main, \"it\"");
        let mut args = NewArgs::default();
        args.int("n", 5);
        args.text("why", name);
        let args = run.args(&mut args).unwrap();
        let [name_id, kernel_id, track_id] =
            [name, "kernel", "requests"].map(|text| run.text_id(text));
        let category_id = Some(run.text_id("cpu_op"));
        let step = slice(thread, run.text_id("step"), 100, 50);
        run.add_slice(&Slice { kind: NodeKind::Step, step: Some(9), ..step }).unwrap();
        run.add_slice(&Slice {
            order: 1,
            kind: NodeKind::Operator,
            category_id,
            external_id: Some(4),
            args: args.clone(),
            ..slice(thread, name_id, 110, 20)
        })
        .unwrap();
        run.add_gpu_activity(&GpuActivity {
            device: 1,
            stream: 2,
            correlation_id: Some(6),
            graph_node_id: Some(9),
            grid: Some([1, 2, 3]),
            block: Some([8, 1, 1]),
            registers: Some(40),
            shared_bytes: Some(1024),
            bytes: Some(32),
            external_id: Some(4),
            ..kernel(process, kernel_id, 120, 15)
        })
        .unwrap();
        run.add_async_span(&async_span(process, track_id, name_id, (105, 1))).unwrap();
        run.add_instant(&Instant { args, ..Instant::new(process, name_id, 101) }).unwrap();
    })
}

#[test]
fn rows_are_written_in_order_of_their_times() {
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
    for name in [SPECIAL_CHARACTERS, "", "-1", "@SUM(1)", "\"", "\u{feff}", &"x".repeat(100_000)] {
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
