SELECT
    name(c.name_id) AS name,
    c.kind AS kind,
    path(c.id) AS path,
    c.depth AS depth,
    coalesce(r.count, 0) AS count,
    coalesce(r.total_nanos, 0) AS total_nanos,
    coalesce(r.self_nanos, 0) AS self_nanos,
    r.min_nanos AS min_nanos,
    r.max_nanos AS max_nanos,
    sketch_quantile(r.sketch, 0.5) AS p50_nanos,
    sketch_quantile(r.sketch, 0.99) AS p99_nanos,
    c.id AS context_id,
    c.parent_id AS parent_id
FROM raw.contexts AS c
LEFT JOIN (
    SELECT
        context_id,
        sum(count) AS count,
        sum(total_nanos) AS total_nanos,
        sum(self_nanos) AS self_nanos,
        min(min_nanos) AS min_nanos,
        max(max_nanos) AS max_nanos,
        merge_sketches(sketch) AS sketch
    FROM raw.rollups
    WHERE bucket_nanos = 0
    GROUP BY context_id
) AS r ON r.context_id = c.id
WHERE c.parent_id IS NOT NULL
