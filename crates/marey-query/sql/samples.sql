SELECT
    time_nanos,
    name(name_id) AS name,
    value,
    integer,
    text,
    vector,
    path(context_id) AS path,
    depth(context_id) AS depth,
    thread_name(thread_id) AS thread,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    process_id,
    thread_id,
    context_id,
    args(args_id, arg_numbers) AS args
FROM raw.samples
