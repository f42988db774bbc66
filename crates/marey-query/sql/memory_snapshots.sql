SELECT
    time_nanos,
    state,
    bytes,
    requested_bytes,
    address,
    device,
    stream,
    segment_address,
    segment_bytes,
    segment_type,
    path(context_id) AS path,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    process_id,
    context_id,
    args(args_id, arg_numbers) AS args
FROM raw.memory_snapshots
