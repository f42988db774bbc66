//! Several files at once: ranks in one run, on one clock.

use std::path::PathBuf;
use std::sync::Arc;

use marey_formats::{Imported, import};
use marey_store::Run;
use marey_store::row::{Collective, GpuActivity, Span};

use crate::dump::reader;

/// Returns the trace of a rank whose clock is off by `skew_micros`: three collectives that end
/// together on all ranks, although each rank started them at a different time.
fn rank(number: u32, skew_micros: i64) -> String {
    let mut events = vec![format!(
        r#"{{"ph":"X","cat":"cpu_op","name":"op of {number}","pid":{pid},"tid":1,"ts":{ts},"dur":5}}"#,
        pid = 100 + number,
        ts = 1_000 + skew_micros,
    )];
    for sequence in 0..3_i64 {
        let end = 2_000 + 1_000 * sequence;
        let dur = 100 + i64::from(number) * 50;
        events.push(format!(
            r#"{{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":7,"ts":{ts},"dur":{dur},"args":{{"device":0,"stream":7,"correlation":{sequence},"Collective name":"allreduce","Process Group Name":"0","Seq":{sequence},"In msg nelems":8,"Out msg nelems":8,"dtype":"Float","Group size":3}}}}"#,
            ts = end - dur + skew_micros,
        ));
    }
    format!(
        r#"{{"schemaVersion":1,"distributedInfo":{{"backend":"nccl","rank":{number},"world_size":3}},"baseTimeNanoseconds":1000000000,"traceEvents":[{}]}}"#,
        events.join(",\n")
    )
}

fn import_ranks(files: &[String]) -> (tempfile::TempDir, Run, Imported) {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> =
        (0..files.len()).map(|n| folder.path().join(format!("rank{n}.json"))).collect();
    for (path, content) in paths.iter().zip(files) {
        std::fs::write(path, content).unwrap();
    }
    let out = folder.path().join("all.marey");
    let read_bytes = Arc::default();
    let imported = import(&paths, &out, &read_bytes).unwrap();
    let total: usize = files.iter().map(String::len).sum();
    assert_eq!(read_bytes.load(std::sync::atomic::Ordering::Relaxed), total as u64);
    let run = Run::open(&out).unwrap();
    // No other files are left.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), files.len() + 1);
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 2);
    (folder, run, imported)
}

/// Runs the test below in a process with a low limit of open files.
#[test]
fn many_ranks_need_few_open_files() {
    let output = std::process::Command::new("sh")
        .args([
            "-c",
            "ulimit -n 64 && exec \"$0\" --exact ranks::two_hundred_ranks_are_merged --ignored",
        ])
        .arg(std::env::current_exe().unwrap())
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}");
}

#[test]
#[ignore = "it needs the limit that the test above sets"]
fn two_hundred_ranks_are_merged() {
    let with_size_200 = |content: String| content.replace(r#"size":3"#, r#"size":200"#);
    let ranks: Vec<String> =
        (0..200).map(|number| with_size_200(rank(number, i64::from(number)))).collect();
    let (_folder, run, imported) = import_ranks(&ranks);
    assert_eq!(imported.files[199].alignment_nanos, Some(-199_000));
    for (table, parts) in &run.manifest().tables {
        assert_eq!(parts.len(), 1, "{table}");
    }
    assert_eq!(reader(&run).rows::<GpuActivity>().unwrap().count(), 600);
}

#[test]
fn collectives_end_together_on_all_ranks() {
    let (_folder, run, imported) = import_ranks(&[rank(0, 0), rank(1, 250_000), rank(2, -40)]);
    let shifts: Vec<_> = imported.files.iter().map(|file| file.alignment_nanos).collect();
    assert_eq!(shifts, [Some(0), Some(-250_000_000), Some(40_000)]);

    let reader = reader(&run);
    let mut ranks: Vec<_> =
        reader.processes().filter(|process| process.pid >= 0).map(|p| (p.pid, p.rank)).collect();
    ranks.sort_unstable();
    assert_eq!(ranks, [(100, Some(0)), (101, Some(1)), (102, Some(2))]);
    let mut ends: Vec<i64> = reader
        .rows::<GpuActivity>()
        .unwrap()
        .map(|row| row.unwrap())
        .map(|row| row.start_nanos + row.duration_nanos)
        .collect();
    ends.sort_unstable();
    let expected = [2, 2, 2, 3, 3, 3, 4, 4, 4].map(|millis| 1_000_000_000 + millis * 1_000_000);
    assert_eq!(ends, expected);
    let starts: Vec<i64> =
        reader.rows::<Span>().unwrap().map(|span| span.unwrap().start_nanos).collect();
    assert_eq!(starts, [1_001_000_000; 3]);
}

/// Returns a trace of collectives from their names, optional sequence numbers, and ends in
/// microseconds.
fn collectives(all: &[(&str, Option<i64>, i64)]) -> String {
    let events = all.iter().map(|(name, sequence, end)| {
        let sequence = sequence.map(|number| format!(r#","Seq":{number}"#)).unwrap_or_default();
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"nccl","pid":0,"tid":9,"ts":{ts},"dur":10,"args":{{"stream":9,"Collective name":"{name}","Process Group Name":"0"{sequence}}}}}"#,
            ts = end - 10,
        )
    });
    format!(r#"{{"traceEvents":[{}]}}"#, events.collect::<Vec<_>>().join(","))
}

#[test]
fn ambiguous_collectives_do_not_shift_clocks() {
    // The second file begins one collective later. Both clocks are correct.
    let (a, b) = (
        [("allreduce", None, 100), ("allreduce", None, 200), ("allreduce", None, 300)],
        [("allreduce", None, 200), ("allreduce", None, 300)],
    );
    let (_folder, _, imported) = import_ranks(&[collectives(&a), collectives(&b)]);
    let shifts: Vec<_> = imported.files.iter().map(|file| file.alignment_nanos).collect();
    assert_eq!(shifts, [None, None]);
}

/// Returns the trace of a rank in a group of two, which ends three collectives at these
/// milliseconds. `source` selects where the trace lists the ranks of the group.
fn rank_of_pair(rank: u32, pair: [u32; 2], ends: [i64; 3], source: GroupRanks) -> String {
    let of_event = match source {
        GroupRanks::InEvents => format!(r#","Process Group Ranks":"{pair:?}""#),
        GroupRanks::InHead | GroupRanks::Nowhere => String::new(),
    };
    let of_head = match source {
        GroupRanks::InHead => {
            format!(
                r#","pg_config":[{{"pg_name":"1","pg_desc":"tp","pg_size":2,"ranks":{pair:?}}}]"#
            )
        }
        GroupRanks::InEvents | GroupRanks::Nowhere => String::new(),
    };
    let events = ends.into_iter().zip(1..).map(|(end, sequence)| {
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"nccl","pid":0,"tid":9,"ts":{ts},"dur":10,"args":{{"stream":9,"Collective name":"allreduce","Process Group Name":"1","Group size":2,"Seq":{sequence}{of_event}}}}}"#,
            ts = end * 1000 - 10,
        )
    });
    let events = events.collect::<Vec<_>>().join(",\n");
    format!(r#"{{"traceEvents":[{events}],"distributedInfo":{{"rank":{rank}{of_head}}}}}"#)
}

/// Where a trace lists the ranks of a group.
#[derive(Clone, Copy, Debug)]
enum GroupRanks {
    InEvents,
    InHead,
    Nowhere,
}

/// Ranks 0 and 1 have a group `1`, and so have ranks 2 and 3. All four clocks are correct.
fn two_pairs(source: GroupRanks) -> [String; 4] {
    [
        rank_of_pair(0, [0, 1], [10, 20, 30], source),
        rank_of_pair(1, [0, 1], [10, 20, 30], source),
        rank_of_pair(2, [2, 3], [13, 24, 35], source),
        rank_of_pair(3, [2, 3], [13, 24, 35], source),
    ]
}

#[test]
fn groups_with_equal_names_and_different_ranks_are_distinct() {
    for source in [GroupRanks::InEvents, GroupRanks::InHead] {
        let (_folder, run, imported) = import_ranks(&two_pairs(source));
        for file in &imported.files {
            assert_eq!((file.alignment_nanos, &*file.warnings), (Some(0), &[][..]), "{source:?}");
        }
        let reader = reader(&run);
        let mut groups: Vec<_> = reader
            .rows::<Collective>()
            .unwrap()
            .map(Result::unwrap)
            .map(|row| (reader.text(row.group_ranks_id.unwrap()).to_owned(), row.group_size))
            .collect();
        groups.sort();
        groups.dedup();
        assert_eq!(groups, [("0-1".to_owned(), Some(2)), ("2-3".to_owned(), Some(2))]);
    }
}

/// If files do not list the ranks of groups, four ranks in a group of two are two groups.
#[test]
fn ambiguous_groups_do_not_shift_clocks_and_are_reported() {
    let (_folder, run, imported) = import_ranks(&two_pairs(GroupRanks::Nowhere));
    for file in &imported.files {
        assert_eq!(file.alignment_nanos, None);
        let [warning] = &*file.warnings else { panic!("{:?}", file.warnings) };
        let shown = (warning.loss.as_str(), warning.count, warning.first.cause.as_str());
        let cause = "`allreduce` 1 of the group `1` is in the files of 4 ranks, but the group has 2: \
                     several groups share this name";
        assert_eq!(shown, ("ambiguous_collectives", 3, cause));
        assert_eq!(warning.first.offset, r#"{"traceEvents":["#.len() as u64);
    }
    assert_eq!(run.manifest().losses["ambiguous_collectives"], 12);
}

#[test]
fn point_to_point_messages_do_not_shift_clocks() {
    let (a, b) = (
        [("allreduce", Some(1), 100), ("send", Some(1), 200), ("send", Some(2), 300)],
        [("allreduce", Some(1), 150), ("send", Some(1), 900), ("send", Some(2), 950)],
    );
    let (_folder, _, imported) = import_ranks(&[collectives(&a), collectives(&b)]);
    let shifts: Vec<_> = imported.files.iter().map(|file| file.alignment_nanos).collect();
    assert_eq!(shifts, [Some(0), Some(-50_000)]);
}

#[test]
fn one_file_keeps_its_clock() {
    let (_folder, run, imported) = import_ranks(&[rank(0, 77)]);
    assert_eq!(imported.files[0].alignment_nanos, None);
    let span = reader(&run).rows::<Span>().unwrap().next().unwrap().unwrap();
    assert_eq!(span.start_nanos, 1_001_077_000);
}

#[test]
fn a_failed_import_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (folder.path().join("good.json"), folder.path().join("bad.json"));
    std::fs::write(&good, rank(0, 0)).unwrap();
    std::fs::write(&bad, "{\"traceEvents\": [}").unwrap();
    let out = folder.path().join("run.marey");
    let error = import(&[good, bad], &out, &Arc::default()).unwrap_err().to_string();
    assert!(error.contains("bad.json` as a Chrome trace: byte "), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn an_existing_run_is_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rank0.json");
    std::fs::write(&file, rank(0, 0)).unwrap();
    let out = folder.path().join("run.marey");
    import(std::slice::from_ref(&file), &out, &Arc::default()).unwrap();
    let error = import(&[file], &out, &Arc::default()).unwrap_err().to_string();
    assert!(error.contains("cannot create") && error.contains("run.marey"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}
