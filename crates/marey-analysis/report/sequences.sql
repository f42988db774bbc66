SELECT
    name,
    sum(count) AS count,
    length,
    sum(total_nanos) AS total_nanos,
    sum(operator_nanos) AS operator_nanos,
    sequence
FROM kernel_sequences
WHERE is_outermost
GROUP BY name, length, sequence
ORDER BY count DESC, total_nanos DESC, name
