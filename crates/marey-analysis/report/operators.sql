SELECT
    name,
    kind,
    sum(self_count) AS self_count,
    sum(self_nanos) AS self_nanos,
    sum(self_busy_nanos) AS self_busy_nanos
FROM operator_kernels
WHERE self_count > 0
GROUP BY name, kind
ORDER BY self_nanos DESC, name
