SELECT
    time_nanos,
    name(name_id) AS name,
    flow_id,
    point,
    is_enclosing,
    name(category_id) AS category,
    thread_name(thread_id) AS thread,
    pid(process_of(thread_id)) AS pid,
    rank(process_of(thread_id)) AS rank,
    process_of(thread_id) AS process_id,
    thread_id,
    args(args_id, arg_numbers) AS args
FROM raw.flows
