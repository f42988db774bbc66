-- The start of each collective on each rank, in the order in which the ranks began it.
WITH arrivals AS (
    SELECT
        process_id,
        device,
        group_id,
        group_ranks_id,
        sequence,
        name_id,
        max(group_size) AS group_size,
        min(start_nanos) AS start_nanos
    FROM raw.collectives
    WHERE sequence IS NOT NULL AND NOT is_p2p AND state <> 'scheduled'
    GROUP BY process_id, device, group_id, group_ranks_id, sequence, name_id
)
SELECT
    process_id,
    device,
    group_id,
    group_ranks_id,
    start_nanos,
    group_size,
    count(*) OVER instance AS arrived,
    -- More arrivals than the group has ranks: several groups share the name.
    coalesce(count(*) OVER instance > max(group_size) OVER instance, FALSE) AS is_ambiguous,
    row_number() OVER arrival AS position,
    start_nanos - lag(start_nanos) OVER arrival AS behind_nanos,
    start_nanos - min(start_nanos) OVER instance AS late_nanos,
    max(start_nanos) OVER instance - start_nanos AS wait_nanos
FROM arrivals
WINDOW
    instance AS (PARTITION BY group_id, group_ranks_id, sequence, name_id),
    arrival AS (
        PARTITION BY group_id, group_ranks_id, sequence, name_id
        ORDER BY start_nanos, process_id, device
    )
