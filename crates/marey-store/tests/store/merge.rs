//! Merging runs.

use marey_model::context::NodeKind;
use marey_model::loss::LossCause;
use marey_store::row::{Metadata, Span};
use marey_store::{Assembler, NewProcess, Run, Slice, StoreError, merge};

use crate::read::{args, path, reader, rows};

/// Creates a run of one process with these spans, each inside the previous one.
fn create_run(pid: i64, names: &[&str]) -> (tempfile::TempDir, Run) {
    let folder = tempfile::tempdir().unwrap();
    let mut run = Assembler::new(folder.path());
    let process =
        run.add_process(NewProcess { pid, rank: Some(pid as u32), ..NewProcess::default() });
    let thread_id = run.add_thread(process, pid * 10, "main");
    let mut new_args = marey_model::args::NewArgs::default();
    for (depth, name) in (0..).zip(names) {
        new_args.clear();
        new_args.int("depth", depth);
        new_args.text("name", name);
        let args = run.args(&mut new_args).unwrap();
        let name_id = run.text_id(name);
        run.add_slice(&Slice {
            category_id: Some(name_id),
            args,
            ..Slice::new(thread_id, NodeKind::Operator, name_id, pid + depth, 100 - 2 * depth)
        })
        .unwrap();
    }
    let thread_id = Some(thread_id);
    run.add_metadata(&Metadata { thread_id, ..Metadata::new(process, "k", "1") }).unwrap();
    run.lose(process, LossCause::Unsupported, 2);
    run.finish(None).unwrap();
    let run = Run::open(folder.path()).unwrap();
    (folder, run)
}

/// Describes the spans of a run without ids.
fn rows_without_ids(run: &Run) -> Vec<String> {
    let reader = reader(run);
    let mut rows_without_ids: Vec<_> = rows::<Span>(&reader)
        .iter()
        .map(|span| {
            let thread = reader.thread(span.thread_id).unwrap();
            let process = reader.process(thread.process_id).unwrap();
            let path = path(&reader, span.context_id);
            format!(
                "{} {} {:?} {} {path:?} {} {:?} {}",
                span.start_nanos,
                process.pid,
                process.rank,
                thread.os_id,
                reader.text(span.name_id),
                span.category_id.map(|id| reader.text(id)),
                args(&reader, &span.args),
            )
        })
        .collect();
    rows_without_ids.sort();
    rows_without_ids
}

#[test]
fn a_merged_run_has_the_rows_of_all_runs() {
    let (_folder_1, first) = create_run(1, &["step", "forward", "mm"]);
    let (_folder_2, second) = create_run(2, &["init", "step", "forward", "relu"]);
    let mut expected = rows_without_ids(&first);
    expected.extend(rows_without_ids(&second));
    expected.sort();

    let out = tempfile::tempdir().unwrap();
    merge(&[first, second], out.path()).unwrap();
    let merged = Run::open(out.path()).unwrap();
    assert_eq!(rows_without_ids(&merged), expected);
    assert_eq!(merged.manifest().losses["unsupported_events"], 4);
    assert_eq!(
        merged.manifest().processes.iter().map(|p| (p.id, p.pid)).collect::<Vec<_>>(),
        [(0, 1), (1, 2)]
    );
    // Texts are unique.
    let strings = merged.read(&marey_model::table::stored::STRINGS).unwrap().num_rows();
    assert_eq!(strings, 6);
    let metadata: Vec<Metadata> = rows(&reader(&merged));
    assert_eq!(
        metadata.iter().map(|row| (row.process_id, row.thread_id)).collect::<Vec<_>>(),
        [(0, Some(0)), (1, Some(1))]
    );

    // The same holds after merging again.
    let (_folder_3, third) = create_run(3, &["mm"]);
    expected.extend(rows_without_ids(&third));
    expected.sort();
    let merged_again_folder = tempfile::tempdir().unwrap();
    merge(&[merged, third], merged_again_folder.path()).unwrap();
    assert_eq!(rows_without_ids(&Run::open(merged_again_folder.path()).unwrap()), expected);
}

#[test]
fn ids_without_rows_are_rejected() {
    let (folder, _) = create_run(1, &["step"]);
    let path = folder.path().join("tables/strings");
    let (other, _) = create_run(2, &[]);
    let part = |folder: &std::path::Path| {
        std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path()
    };
    let (own_part, shorter_part) = (part(&path), part(&other.path().join("tables/strings")));
    let manifest = std::fs::read_to_string(folder.path().join("manifest.json")).unwrap();
    let file_len = |path: &std::path::Path| std::fs::metadata(path).unwrap().len();
    let mut manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    manifest["tables"]["strings"][0]["rows"] = 1.into();
    manifest["tables"]["strings"][0]["bytes"] = file_len(&shorter_part).into();
    std::fs::copy(shorter_part, own_part).unwrap();
    std::fs::write(folder.path().join("manifest.json"), manifest.to_string()).unwrap();
    let broken = Run::open(folder.path()).unwrap();
    let out = tempfile::tempdir().unwrap();
    let error = merge(&[broken], out.path()).unwrap_err();
    assert!(matches!(error, StoreError::Part { .. }), "{error}");
    assert!(error.to_string().contains("ids that have no row in the run"), "{error}");
    assert!(Run::open(out.path()).is_err());
}
