//! Opening runs, and the errors for other files.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::thread;

use arrow::array::{Array, RecordBatch, UInt32Array};
use marey_model::table::Table;
use marey_model::table::stored::{SPANS, STRINGS, THREADS};
use marey_model::table::{Column, ColumnKind};
use marey_store::row::Span;
use marey_store::{Found, Lock, Manifest, Run, StoreError, is_recording};
use serde_json::{Value, json};

use crate::read::reader;
use crate::sample;

/// Opens an invalid run; returns the message without the folder's name.
fn open_error(path: &Path) -> String {
    let error = Run::open(path).unwrap_err().to_string();
    error.replace(path.to_str().unwrap(), "RUN")
}

fn edit_manifest(run: &Path, edit: impl FnOnce(&mut Value)) {
    let path = run.join("manifest.json");
    let mut manifest = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    edit(&mut manifest);
    fs::write(path, manifest.to_string()).unwrap();
}

#[test]
fn a_table_without_parts_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    Manifest::new().publish(folder.path(), Vec::new()).unwrap();
    let run = Run::open(folder.path()).unwrap();
    assert!(run.parts(&SPANS).is_empty());
    assert_eq!(run.read(&SPANS).unwrap(), sample::create_rows(&SPANS, 0..0));
}

#[test]
fn a_part_is_read_by_offset_within_its_length() {
    let run = sample::create_run();
    let file = fs::read(run.path().join("tables/spans/part-1.parquet")).unwrap();
    let run = Run::open(run.path()).unwrap();
    let part = &run.parts(&SPANS)[1];
    let len = part.len_bytes();
    assert_eq!(part.read_at(0..len).unwrap(), file);
    assert_eq!(part.read_at(len - 4..len).unwrap(), "PAR1");
    assert!(part.read_at(len..len).unwrap().is_empty());
    for range in [len - 1..len + 1, len + 1..len + 1, u64::MAX - 1..u64::MAX] {
        part.read_at(range).unwrap_err();
    }
    #[expect(clippy::reversed_empty_ranges, reason = "what a wrong caller may give")]
    let reversed = 4..3;
    part.read_at(reversed).unwrap_err();
}

#[test]
fn reading_a_part_reads_its_bytes_about_once() {
    let folder = tempfile::tempdir().unwrap();
    let part = sample::write_part(folder.path(), &SPANS, 0, 0..300_000);
    let len_bytes = part.len_bytes();
    sample::publish(folder.path(), vec![part]);
    let run = Run::open(folder.path()).unwrap();
    let before = bytes_read_by_this_thread();
    assert_eq!(run.read(&SPANS).unwrap().num_rows(), 300_000);
    let read_bytes = bytes_read_by_this_thread() - before;
    // Page headers are read together with the bytes after them, which are read again.
    assert!(read_bytes < 2 * len_bytes, "{read_bytes} bytes read of a part of {len_bytes}");
}

#[test]
fn parts_are_not_read_before_their_first_row_is_due() {
    let folder = tempfile::tempdir().unwrap();
    let part = |number: u32| {
        let first = number as usize * 20_000;
        sample::write_part(folder.path(), &SPANS, number, first..first + 20_000)
    };
    let parts: Vec<_> = (0..8).map(part).collect();
    let len_bytes: u64 = parts.iter().map(marey_store::WrittenPart::len_bytes).sum();
    sample::publish(folder.path(), parts);
    let run = Run::open(folder.path()).unwrap();
    let reader = reader(&run);
    let before = bytes_read_by_this_thread();
    let mut rows = reader.rows::<Span>().unwrap();
    rows.next().unwrap().unwrap();
    let read_bytes = bytes_read_by_this_thread() - before;
    assert!(read_bytes < len_bytes / 2, "{read_bytes} bytes read of {len_bytes}");
    let starts: Vec<i64> = rows.map(|span| span.unwrap().start_nanos).collect();
    assert_eq!(starts.len(), 8 * 20_000 - 1);
    assert!(starts.is_sorted());
}

fn bytes_read_by_this_thread() -> u64 {
    let counts = fs::read_to_string("/proc/thread-self/io").unwrap();
    let count = counts.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
    count.parse().unwrap()
}

#[test]
fn opening_another_kind_of_file_names_the_kind() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&[u8], Found); 7] = [
        (b"[{\"frame\": {\"name\": \"ROOT\"}}]", Found::Profile),
        (b"{\"displayTimeUnit\": \"us\", \"traceEvents\": []}", Found::ChromeTrace),
        (b"MAREYSPL\x01\0\0\0", Found::Spool),
        (b"PAR1....PAR1", Found::Parquet),
        (b"{\"schema_version\": 1}", Found::Manifest),
        (b"", Found::File),
        (b"PK\x05\x06", Found::File),
    ];
    for (content, expected) in cases {
        let path = folder.path().join("it.marey");
        fs::write(&path, content).unwrap();
        let error = Run::open(&path).unwrap_err();
        assert!(matches!(error, StoreError::NotARun { found, .. } if found == expected));
    }
    let error = Run::open(folder.path()).unwrap_err();
    assert!(matches!(error, StoreError::NotARun { found: Found::Folder, .. }));
    assert!(matches!(Run::open(&folder.path().join("none")), Err(StoreError::Io { .. })));
}

#[test]
fn opening_a_profile_suggests_marey_view() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.hatchet_msgpack");
    fs::write(&path, [0x92, 0x83]).unwrap();
    let error = Run::open(&path).unwrap_err();
    let name = path.display();
    assert_eq!(error.to_string(), format!("`{name}` is not a run: it is a profile"));
    assert_eq!(error.hint().unwrap(), format!("use `marey view {name}`"));
}

#[test]
fn a_run_with_spools_only_is_uncollected() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("spool")).unwrap();
    let error = Run::open(folder.path()).unwrap_err();
    assert!(matches!(error, StoreError::Uncollected { .. }));
    assert!(error.hint().is_some());
}

#[test]
fn other_schema_versions_are_rejected_before_parsing_the_rest() {
    let run = sample::create_run();
    let manifest = run.path().join("manifest.json");
    fs::write(&manifest, "{\"schema_version\": 2, \"tables\": 5}").unwrap();
    let error = Run::open(run.path()).unwrap_err();
    assert!(
        error.to_string().ends_with("has schema version 2; this version of marey reads version 1")
    );
    assert!(error.hint().unwrap().contains("upgrade"));
    fs::write(&manifest, "{\"schema_version\": 0}").unwrap();
    let error = Run::open(run.path()).unwrap_err();
    assert!(
        error.to_string().ends_with("has schema version 0; this version of marey reads version 1")
    );
    assert_eq!(error.hint(), None);
}

#[test]
fn unknown_keys_and_tables_in_the_manifest_are_ignored() {
    let run = sample::create_run();
    edit_manifest(run.path(), |manifest| {
        manifest["colour"] = json!("blue");
        manifest["next"]["colours"] = json!(3);
        manifest["tables"]["colours"] = json!([]);
        manifest["tables"]["spans"][0]["colour"] = json!("red");
    });
    sample::assert_has_sample_rows(&Run::open(run.path()).unwrap());
}

#[test]
fn each_violated_invariant_of_the_manifest_has_a_message() {
    type Edit = fn(&mut Value);
    let process = json!({"id": 0, "pid": 1, "host": "", "argv": [], "start_unix_nanos": 0,
               "end_unix_nanos": 0, "clocks": [], "is_complete": true});
    let cases: [(Edit, &str); 10] = [
        (
            |m| m["next"]["threads"] = json!(u32::MAX),
            "`next.threads` is 4294967295, which leaves no free ids",
        ),
        (
            |m| m["next"]["part"] = json!(1),
            "the number of part `tables/args/part-1.parquet` is not below `next.part`",
        ),
        (
            |m| m["tables"]["spans"][0]["file"] = json!("../x.parquet"),
            "`../x.parquet` is not the name of a part of `spans`",
        ),
        (
            |m| m["tables"]["spans"][0]["file"] = json!("tables/spans/part-01.parquet"),
            "`tables/spans/part-01.parquet` is not the name of a part of `spans`",
        ),
        (
            |m| m["tables"]["spans"][0]["file"] = json!("tables/spans/part-1.parquet"),
            "part `tables/spans/part-1.parquet` is listed twice",
        ),
        (
            |m| {
                m["tables"]["../x"] =
                    json!([{"file": "tables/../x/part-1.parquet", "rows": 0, "bytes": 0}]);
            },
            "`tables/../x/part-1.parquet` is not the name of a part of `../x`",
        ),
        (
            |m| m["tables"]["spans"][0]["process_id"] = json!(7),
            "part `tables/spans/part-0.parquet` has the unknown process 7",
        ),
        (
            |m| m["spools"] = json!([{"name": "1-0.spool", "bytes": 0, "torn_bytes": 0, "is_whole": true, "process_id": 3}]),
            "spool `1-0.spool` has the unknown process 3",
        ),
        (|m| m["next"]["processes"] = json!(0), "process 0 is not below `next.processes`"),
        (
            |m| m["spools"] = json!([{"name": "../1-0.spool", "bytes": 0, "torn_bytes": 0, "is_whole": true, "process_id": 0}]),
            "`../1-0.spool` is not the name of a spool",
        ),
    ];
    for (edit, message) in cases {
        let run = sample::create_run();
        edit_manifest(run.path(), |manifest| {
            manifest["processes"] = json!([process]);
            manifest["next"]["processes"] = json!(1);
            edit(manifest);
        });
        assert_eq!(open_error(run.path()), format!("the manifest of `RUN` is broken: {message}"));
    }
}

#[test]
fn parts_that_contradict_the_manifest_are_rejected() {
    type Corruption = fn(&Path);
    let cases: [(Corruption, &str); 6] = [
        (|part| fs::remove_file(part).unwrap(), "it is missing"),
        (|part| truncate(part, 100), "it has 100 bytes instead of"),
        (|part| truncate(part, 1 << 20), "it has 1048576 bytes instead of"),
        (
            |part| {
                fs::remove_file(part).unwrap();
                fs::create_dir(part).unwrap();
            },
            "it is not a file",
        ),
        (|part| replace_by_link(part), "part-1.parquet` is a symbolic link"),
        (|part| replace_by_link(part.parent().unwrap()), "spans` is a symbolic link"),
    ];
    for (corrupt, message) in cases {
        let run = sample::create_run();
        corrupt(&run.path().join("tables/spans/part-1.parquet"));
        let error = open_error(run.path());
        assert!(error.starts_with("`tables/spans/part-"), "{error}");
        assert!(error.contains(message), "{error}");
    }
}

fn truncate(part: &Path, len_bytes: u64) {
    File::options().write(true).open(part).unwrap().set_len(len_bytes).unwrap();
}

/// Moves a file away and replaces it by a link to it.
fn replace_by_link(path: &Path) {
    let renamed_path = path.with_extension("moved");
    fs::rename(path, &renamed_path).unwrap();
    symlink(&renamed_path, path).unwrap();
}

#[test]
fn a_part_with_another_row_count_is_rejected() {
    let run = sample::create_run();
    edit_manifest(run.path(), |manifest| manifest["tables"]["spans"][1]["rows"] = json!(8));
    let error = Run::open(run.path()).unwrap().read(&SPANS).unwrap_err().to_string();
    assert!(error.ends_with("it has 7 rows instead of 8"), "{error}");
}

/// Returns `threads` as an older or newer version of marey could have declared it.
fn other_threads_table(columns: &'static [Column]) -> &'static Table {
    Box::leak(Box::new(Table { name: "threads", doc: "Threads.", columns, sorted_by: None }))
}

fn run_with(table: &'static Table) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let part = sample::write_part(folder.path(), table, 0, 0..2);
    sample::publish(folder.path(), vec![part]);
    folder
}

const fn column(name: &'static str, kind: ColumnKind) -> Column {
    marey_model::table::column(name, kind, "")
}

#[test]
fn undeclared_columns_of_a_part_are_ignored() {
    const COLUMNS: &[Column] = &[
        column("colour", ColumnKind::Text),
        column("name", ColumnKind::Text),
        column("os_id", ColumnKind::Int),
        column("process_id", ColumnKind::Id),
        column("id", ColumnKind::Id),
    ];
    let folder = run_with(other_threads_table(COLUMNS));
    let rows = Run::open(folder.path()).unwrap().read(&THREADS).unwrap();
    assert_eq!(rows, sample::create_rows(&THREADS, 0..2));
}

#[test]
fn a_missing_nullable_column_is_null() {
    static CONTEXTS: Table = Table {
        name: "contexts",
        doc: "Contexts without a parent.",
        columns: &[
            column("id", ColumnKind::Id),
            column("depth", ColumnKind::Id),
            column("kind", ColumnKind::Text),
            column("name_id", ColumnKind::Id),
        ],
        sorted_by: Some("id"),
    };
    let folder = run_with(&CONTEXTS);
    let run = Run::open(folder.path()).unwrap();
    let rows: RecordBatch = run.read(&marey_model::table::stored::CONTEXTS).unwrap();
    assert_eq!(rows["parent_id"].null_count(), 2);
    assert_eq!(rows["name_id"].as_ref(), &UInt32Array::from(vec![0, 1]) as &dyn Array);
}

#[test]
fn a_missing_required_column_is_an_error() {
    const COLUMNS: &[Column] = &[column("id", ColumnKind::Id), column("os_id", ColumnKind::Int)];
    let folder = run_with(other_threads_table(COLUMNS));
    let error = Run::open(folder.path()).unwrap().read(&THREADS).unwrap_err().to_string();
    assert!(error.contains("the column `process_id` is missing"), "{error}");
}

#[test]
fn publishing_replaces_parts_and_removes_leftovers() {
    let run = sample::create_run();
    let mut manifest = Manifest::read(run.path()).unwrap().unwrap();
    let before = Run::open(run.path()).unwrap();
    // Leftovers of a crashed collector: parts with and without a final name.
    let spans = run.path().join("tables/spans");
    fs::write(spans.join("part-9.parquet"), "left").unwrap();
    fs::write(spans.join(".part-9.x"), "left").unwrap();
    fs::write(run.path().join(".manifest.json.x"), "left").unwrap();
    // Files of other programs are kept.
    fs::write(spans.join("notes.txt"), "mine").unwrap();
    fs::write(run.path().join("tables/notes.txt"), "mine").unwrap();

    manifest.processes.push(process(0));
    manifest.next.processes = 1;
    manifest.next.part = 4;
    let first = sample::write_part(run.path(), &SPANS, 2, 14..15);
    manifest.list(&first, Some(0));
    manifest.publish(run.path(), vec![first]).unwrap();
    let rows = || Run::open(run.path()).unwrap().read(&SPANS).unwrap();
    assert_eq!(rows(), sample::create_rows(&SPANS, 0..15));

    manifest.unlist(0);
    let second = sample::write_part(run.path(), &SPANS, 3, 14..16);
    manifest.list(&second, Some(0));
    manifest.publish(run.path(), vec![second]).unwrap();
    assert_eq!(rows(), sample::create_rows(&SPANS, 0..16));
    let mut names: Vec<_> =
        fs::read_dir(&spans).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["notes.txt", "part-0.parquet", "part-1.parquet", "part-3.parquet"]);
    assert!(!run.path().join(".manifest.json.x").exists());
    sample::assert_has_sample_rows(&before);
}

#[test]
fn a_run_opens_while_its_parts_are_replaced() {
    let run = sample::create_run();
    let replace = |number: u32| {
        let part = sample::write_part(run.path(), &SPANS, number, 0..1);
        sample::publish(run.path(), vec![part]);
    };
    replace(0);
    thread::scope(|scope| {
        let collector = scope.spawn(|| (1..200).for_each(replace));
        while !collector.is_finished() {
            let run = Run::open(run.path()).unwrap();
            assert_eq!(run.read(&SPANS).unwrap(), sample::create_rows(&SPANS, 0..1));
        }
    });
}

#[test]
fn an_open_run_survives_the_replacement_of_its_parts() {
    let run = sample::create_run();
    let before = Run::open(run.path()).unwrap();
    Manifest::new().publish(run.path(), Vec::new()).unwrap();
    assert!(Run::open(run.path()).unwrap().parts(&STRINGS).is_empty());
    sample::assert_has_sample_rows(&before);
}

#[test]
fn a_run_with_many_parts_opens_few_files() {
    let folder = tempfile::tempdir().unwrap();
    let part = |number| {
        let row = number as usize;
        sample::write_part(folder.path(), &STRINGS, number, row..row + 1)
    };
    sample::publish(folder.path(), (0..300).map(part).collect());
    let run = Run::open(folder.path()).unwrap();
    let open_files = fs::read_dir("/proc/self/fd").unwrap();
    let targets = open_files.filter_map(|file| fs::read_link(file.unwrap().path()).ok());
    assert_eq!(targets.filter(|target| target.starts_with(folder.path())).count(), 0);
    assert_eq!(run.read(&STRINGS).unwrap(), sample::create_rows(&STRINGS, 0..300));
}

#[test]
fn an_invalid_manifest_is_not_published() {
    let run = sample::create_run();
    let mut manifest = Manifest::read(run.path()).unwrap().unwrap();
    manifest.next.part = 0;
    manifest.publish(run.path(), Vec::new()).unwrap_err();
    sample::assert_has_sample_rows(&Run::open(run.path()).unwrap());
}

#[test]
fn a_published_manifest_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut manifest = Manifest::new();
    manifest.world_size = Some(8);
    manifest.processes = vec![process(0), process(1)];
    manifest.next.processes = 2;
    manifest.losses.insert("nodes".to_owned(), 3);
    manifest.publish(folder.path(), Vec::new()).unwrap();
    assert_eq!(Manifest::read(folder.path()).unwrap().unwrap(), manifest);
}

fn process(id: u32) -> marey_store::ProcessEntry {
    marey_store::ProcessEntry {
        id,
        pid: 100 + id,
        rank: Some(id),
        host: "host".to_owned(),
        argv: vec!["train.py".to_owned()],
        start_unix_nanos: 1,
        end_unix_nanos: 2,
        clocks: vec![[0, 1], [1, 2]],
        is_complete: true,
        overhead: Some(marey_store::OverheadEntry {
            events: 10,
            scope_nanos: 0.1,
            recording_nanos: 1,
            flushing_nanos: 2,
        }),
    }
}

#[test]
fn a_run_is_recording_while_a_process_holds_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!is_recording(folder.path()).unwrap());
    let open = || File::create(folder.path().join(".recording")).unwrap();
    let (first, second) = (open(), open());
    assert!(!is_recording(folder.path()).unwrap());
    first.lock_shared().unwrap();
    second.lock_shared().unwrap();
    assert!(is_recording(folder.path()).unwrap());
    drop(first);
    assert!(is_recording(folder.path()).unwrap());
    drop(second);
    assert!(!is_recording(folder.path()).unwrap());
}

#[test]
fn only_one_collector_holds_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let lock = Lock::collecting(folder.path()).unwrap();
    let other = File::open(folder.path().join(".collecting")).unwrap();
    other.try_lock_shared().unwrap_err();
    drop(lock);
    other.try_lock().unwrap();
}

#[test]
fn a_waiting_collector_locks_the_run_that_has_the_name_now() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("x.marey");
    fs::create_dir(&run).unwrap();
    let recorder = File::create(run.join(".collecting")).unwrap();
    recorder.lock().unwrap();
    let inode = recorder.metadata().unwrap().ino();
    std::thread::scope(|threads| {
        let waiting = threads.spawn(|| Lock::collecting(&run).unwrap());
        // A waiter in `/proc/locks`: `3: -> FLOCK  ADVISORY  WRITE 1234 08:01:<inode> 0 EOF`.
        let waits = |line: &str| line.contains("-> FLOCK") && line.contains(&format!(":{inode} "));
        while !fs::read_to_string("/proc/locks").unwrap().lines().any(waits) {
            std::thread::yield_now();
        }
        fs::rename(&run, folder.path().join("x.1.marey")).unwrap();
        fs::create_dir(&run).unwrap();
        drop(recorder);
        let _lock = waiting.join().unwrap();
        let open = |run: &str| File::open(folder.path().join(run).join(".collecting")).unwrap();
        open("x.1.marey").try_lock().unwrap();
        open("x.marey").try_lock().unwrap_err();
    });
}

#[test]
fn a_full_disk_has_a_hint() {
    let io = |kind: std::io::ErrorKind| StoreError::Io {
        action: "sort rows in",
        path: "train.marey".into(),
        source: kind.into(),
    };
    let hint = io(std::io::ErrorKind::StorageFull).hint();
    assert_eq!(
        hint.unwrap(),
        "free some disk space there: tables and the sort of their rows need it"
    );
    assert_eq!(io(std::io::ErrorKind::UnexpectedEof).hint(), None);
}
