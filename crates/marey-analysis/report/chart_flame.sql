SELECT
    name,
    kind,
    depth,
    total_nanos,
    self_nanos,
    count,
    context_id AS id,
    parent_id AS parent
FROM flame
WHERE total_nanos > 0
ORDER BY total_nanos DESC, depth
