SELECT
    name(name_id) AS name,
    kind(context_id) AS kind,
    sum(count) AS count,
    sum(total_nanos) AS total_nanos,
    sum(self_nanos) AS self_nanos,
    CASE WHEN sum(count) > 0 THEN CAST(sum(total_nanos) AS DOUBLE) / sum(count) END AS mean_nanos,
    min(min_nanos) AS min_nanos,
    max(max_nanos) AS max_nanos,
    sketch_quantile(merge_sketches(sketch), 0.5) AS p50_nanos,
    sketch_quantile(merge_sketches(sketch), 0.99) AS p99_nanos
FROM raw.rollups
WHERE bucket_nanos = 0
GROUP BY name(name_id), kind(context_id)
