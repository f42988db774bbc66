SELECT
    name(name_id) AS name,
    start_nanos,
    start_nanos + duration_nanos AS end_nanos,
    duration_nanos,
    device,
    stream,
    path(context_id) AS path,
    CASE WHEN grid_x IS NOT NULL THEN CAST(concat_ws(',', grid_x, grid_y, grid_z) AS VARCHAR) END AS grid,
    CASE WHEN block_x IS NOT NULL THEN CAST(concat_ws(',', block_x, block_y, block_z) AS VARCHAR) END AS block,
    registers,
    shared_bytes,
    correlation_id,
    graph_node_id,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    process_id,
    context_id
FROM raw.gpu_activities
WHERE kind = 'kernel'
