SELECT
    name(o.name_id) AS name,
    o.count AS count,
    CAST(o.self_nanos AS DOUBLE) AS self_nanos,
    m.module AS module,
    m.call_site AS call_site
FROM (
    SELECT
        c.name_id AS name_id,
        sum(r.count) AS count,
        sum(r.self_nanos) AS self_nanos,
        first_value(r.context_id ORDER BY r.self_nanos DESC, r.context_id) AS context_id
    FROM (
        SELECT
            context_id,
            sum(count) AS count,
            sum(self_nanos) AS self_nanos
        FROM raw.rollups
        WHERE bucket_nanos = 0 AND kind(context_id) = 'operator'
        GROUP BY context_id
    ) AS r
    JOIN raw.contexts AS c ON c.id = r.context_id
    GROUP BY c.name_id
) AS o
JOIN context_modules AS m ON m.context_id = o.context_id
WHERE o.self_nanos > 0
ORDER BY self_nanos DESC, name
