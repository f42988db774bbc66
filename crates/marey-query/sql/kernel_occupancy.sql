SELECT
    name(name_id) AS name,
    CAST(concat_ws(',', block_x, block_y, block_z) AS VARCHAR) AS block,
    registers,
    shared_bytes,
    count,
    total_nanos,
    achieved_percent,
    theoretical_percent,
    CAST(CASE
        WHEN theoretical_percent IS NULL THEN NULL
        WHEN grid_share > 0.5 THEN 'grid'
        WHEN theoretical_percent >= 100 THEN NULL
        WHEN active_blocks = blocks_by_registers THEN 'registers'
        WHEN active_blocks = blocks_by_shared_memory THEN 'shared memory'
        WHEN active_blocks = blocks_by_device THEN 'blocks'
        ELSE 'warps'
    END AS VARCHAR) AS limited_by,
    active_blocks,
    waves,
    device,
    pid(process_id) AS pid,
    rank(process_id) AS rank,
    process_id
FROM (
    SELECT
        process_id,
        device,
        name_id,
        block_x,
        block_y,
        block_z,
        registers,
        shared_bytes,
        sum(count) AS count,
        sum(total_nanos) AS total_nanos,
        -- Means weighted by time; the small constant gives kernels of duration 0 a weight.
        sum(100 * least(active_blocks, grid_blocks) * warps * warp / device_threads * (total_nanos + 1e-3))
            / sum(CASE WHEN active_blocks IS NOT NULL AND grid_blocks IS NOT NULL THEN total_nanos + 1e-3 END)
            AS achieved_percent,
        sum(grid_blocks / nullif(active_blocks, 0) * (total_nanos + 1e-3))
            / sum(CASE WHEN active_blocks > 0 AND grid_blocks IS NOT NULL THEN total_nanos + 1e-3 END) AS waves,
        sum(CASE WHEN grid_blocks < active_blocks THEN total_nanos + 1e-3 ELSE 0 END) / sum(total_nanos + 1e-3)
            AS grid_share,
        min(100 * CAST(active_blocks * warps * warp AS DOUBLE) / device_threads) AS theoretical_percent,
        min(active_blocks) AS active_blocks,
        min(blocks_by_registers) AS blocks_by_registers,
        min(blocks_by_shared_memory) AS blocks_by_shared_memory,
        min(blocks_by_device) AS blocks_by_device
    FROM (
        SELECT
            *,
            least(blocks_by_warps, blocks_by_registers, blocks_by_shared_memory, blocks_by_device) AS active_blocks,
            -- Blocks of the grid per multiprocessor.
            CAST(blocks AS DOUBLE) / nullif(multiprocessors, 0) AS grid_blocks
        FROM (
            -- The number of resident blocks that each resource of a multiprocessor permits, computed as in
            -- cuda_occupancy.h of the CUDA toolkit.
            SELECT
                *,
                device_threads / warp / warps AS blocks_by_warps,
                -- Registers are allocated per warp in units of 256, from one of four equal partitions of the
                -- multiprocessor.
                CASE
                    WHEN registers > 0 THEN device_registers / 4 / ((registers * warp + 255) / 256 * 256) * 4 / warps
                END AS blocks_by_registers,
                -- From compute capability 8.0 on, the system reserves 1 KiB of shared memory per block.
                CASE
                    WHEN major >= 8 THEN device_shared_bytes / nullif((shared_bytes + 1024 + 127) / 128 * 128, 0)
                    WHEN shared_bytes > 0 THEN device_shared_bytes / nullif((shared_bytes + 255) / 256 * 256, 0)
                END AS blocks_by_shared_memory,
                -- From the table of compute capabilities in the CUDA programming guide.
                CASE
                    WHEN major = 7 AND minor = 5 THEN 16
                    WHEN major = 8 AND minor = 0 THEN 32
                    WHEN major = 8 AND minor = 9 THEN 24
                    WHEN major = 8 THEN 16
                    WHEN major >= 11 THEN 24
                    WHEN major IS NOT NULL THEN 32
                END AS blocks_by_device
            FROM (
                SELECT
                    l.*,
                    (CAST(l.block_x AS BIGINT) * l.block_y * l.block_z + d.warp - 1) / d.warp AS warps,
                    d.warp AS warp,
                    d.major AS major,
                    d.minor AS minor,
                    d.multiprocessors AS multiprocessors,
                    d.threads AS device_threads,
                    d.registers AS device_registers,
                    d.shared_bytes AS device_shared_bytes
                FROM (
                    SELECT
                        process_id,
                        device,
                        name_id,
                        block_x,
                        block_y,
                        block_z,
                        registers,
                        shared_bytes,
                        CAST(grid_x AS BIGINT) * grid_y * grid_z AS blocks,
                        count(*) AS count,
                        sum(duration_nanos) AS total_nanos
                    FROM raw.gpu_activities
                    WHERE kind = 'kernel' AND block_x > 0 AND block_y > 0 AND block_z > 0
                    GROUP BY
                        process_id,
                        device,
                        name_id,
                        block_x,
                        block_y,
                        block_z,
                        registers,
                        shared_bytes,
                        CAST(grid_x AS BIGINT) * grid_y * grid_z
                ) AS l
                LEFT JOIN (
                    SELECT
                        process_id,
                        device,
                        TRY_CAST(arg(properties, 'computeMajor') AS BIGINT) AS major,
                        TRY_CAST(arg(properties, 'computeMinor') AS BIGINT) AS minor,
                        TRY_CAST(arg(properties, 'numSms') AS BIGINT) AS multiprocessors,
                        TRY_CAST(arg(properties, 'warpSize') AS BIGINT) AS warp,
                        nullif(TRY_CAST(arg(properties, 'maxThreadsPerMultiprocessor') AS BIGINT), 0) AS threads,
                        TRY_CAST(coalesce(arg(properties, 'regsPerMultiprocessor'), arg(properties, 'regsPerBlock')) AS BIGINT)
                            AS registers,
                        TRY_CAST(arg(properties, 'sharedMemPerMultiprocessor') AS BIGINT) AS shared_bytes
                    FROM raw.devices
                    WHERE type = 'CUDA'
                ) AS d
                    ON d.process_id = l.process_id AND d.device = l.device AND d.warp > 0
            )
        )
    )
    GROUP BY process_id, device, name_id, block_x, block_y, block_z, registers, shared_bytes
)
