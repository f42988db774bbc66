SELECT
    name,
    kind,
    count,
    CAST(self_nanos AS DOUBLE) AS self_nanos,
    CAST(total_nanos AS DOUBLE) AS total_nanos,
    mean_nanos,
    max_nanos
FROM top
-- The profiler's spans about its own recording are not operations.
WHERE kind <> 'step' AND self_nanos > 0 AND NOT starts_with(name, 'PyTorch Profiler (')
ORDER BY self_nanos DESC, name
