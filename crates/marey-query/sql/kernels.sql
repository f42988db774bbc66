SELECT
    name,
    start_nanos,
    end_nanos,
    duration_nanos,
    device,
    stream,
    path,
    grid,
    block,
    registers,
    shared_bytes,
    graph_node_id,
    category,
    correlation_id,
    external_id,
    pid,
    rank,
    process_id,
    context_id,
    args
FROM gpu_activities
WHERE kind = 'kernel'
