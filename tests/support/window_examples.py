"""The examples of Proton's documentation for windows and phases, unchanged.

The classes that the documentation defines above them come from `marey.windows` instead.
"""

from __future__ import annotations

TIME_WINDOW = """
# Usage example
profiler = TimeWindowProfiler(window_duration_seconds=300)  # 5-minute windows
profiler.start_window()

# Your service code
while service_running:
    # Check if it's time to rotate
    if time_to_rotate():
        profiler.rotate_profile()
    
    # Process requests
    process_request()
"""  # noqa: W293

INFERENCE = '''
# LLM Inference Service Example
class LLMInferenceService:
    def __init__(self):
        self.profiler = LLMInferenceProfiler(
            window_minutes=5,
            detailed_sampling_interval=12  # Detailed profiling every hour
        )
        self.model = load_model()
        
    async def start(self):
        """Start the service with profiling"""
        self.profiler.start_profiling_window()
        
        # Start periodic rotation task
        asyncio.create_task(self.profiler.periodic_rotation())
        
        # Start serving requests
        await self.serve_requests()
        
    async def process_request(self, request):
        """Process an inference request with profiling"""
        request_id = request.id
        
        with proton.scope("tokenization"):
            tokens = tokenize(request.prompt)
            
        with proton.scope("model_forward"):
            generated = await self.model.generate(tokens)
            
        with proton.scope("detokenization"):
            response = detokenize(generated)
            
        # Record metrics
        self.profiler.record_request(
            request_id,
            len(tokens),
            len(generated)
        )
        
        return response
'''  # noqa: W293

SERVICE = """
# Usage in LLM service
profiler = ServiceWindowProfiler(window_seconds=300)
profiler.start_window()

# Process requests
for request in incoming_requests:
    start_time = time.time()
    try:
        tokens = process_llm_request(request)
        profiler.record_request(RequestMetrics(
            latency_ms=(time.time() - start_time) * 1000,
            tokens_generated=len(tokens),
            success=True
        ))
    except Exception as e:
        profiler.record_request(RequestMetrics(
            latency_ms=(time.time() - start_time) * 1000,
            tokens_generated=0,
            success=False
        ))

# End window with all metrics
profiler.end_window()
"""

CONTINUOUS = """
# Usage
def performance_alert(metrics):
    print(f"⚠️ Performance anomaly detected at {metrics['timestamp']}")
    print(f"  Average kernel time: {metrics['avg_kernel_time_ms']:.2f} ms")
    print(f"  Profile saved at: {metrics['profile_path']}")
    # Send alert to monitoring system
    
profiler = ContinuousProfiler(
    window_seconds=300,
    alert_callback=performance_alert
)

# Run continuous profiling
while True:
    profiler.profile_with_monitoring()
"""  # noqa: W293

PHASES = """
# Usage
profiler = MultiGPUProfiler("training_run")

# Profile different phases separately
with profiler.profile_phase("data_loading"):
    data = load_data()

with profiler.profile_phase("forward_pass"):
    output = model(data)

with profiler.profile_phase("backward_pass"):
    loss.backward()
"""

BASIC = """
import proton
import torch
import os

# Get rank information (example with PyTorch distributed)
rank = int(os.environ.get('RANK', 0))
local_rank = int(os.environ.get('LOCAL_RANK', 0))

# Set the device for this rank
torch.cuda.set_device(local_rank)

# Create a profiling session with rank-based naming
session_id = proton.start(f"profile_rank_{rank}", backend="cupti")

# Activate profiling for this specific session
proton.activate(session_id)

# Your GPU computation
model = MyModel().cuda(local_rank)
output = model(input_data)

# Finalize the session
proton.finalize(session_id)
"""

HOROVOD = """
import proton
import horovod.torch as hvd

# Initialize Horovod
hvd.init()
torch.cuda.set_device(hvd.local_rank())

# Create rank-specific profile
session_id = proton.start(
    f"horovod_profile_rank{hvd.rank()}_size{hvd.size()}",
    backend="cupti",
    hook="triton"
)

proton.activate(session_id)

# Your distributed training code
model = MyModel().cuda()
optimizer = hvd.DistributedOptimizer(optimizer)

for epoch in range(num_epochs):
    with proton.scope(f"epoch_{epoch}"):
        for batch_idx, (data, target) in enumerate(train_loader):
            with proton.scope(f"batch_{batch_idx}"):
                # Training step
                optimizer.zero_grad()
                output = model(data)
                loss = criterion(output, target)
                loss.backward()
                optimizer.step()

proton.finalize(session_id)
"""

JOB = """
#!/usr/bin/env python
import proton
import torch
import argparse
from datetime import datetime

def profile_multi_gpu_job(args):
    # Setup
    rank = int(os.environ.get('RANK', 0))
    world_size = int(os.environ.get('WORLD_SIZE', 1))
    local_rank = int(os.environ.get('LOCAL_RANK', 0))
    
    torch.cuda.set_device(local_rank)
    
    # Create detailed profile name
    timestamp = datetime.now().strftime("%Y%m%d_%H%M%S")
    profile_name = f"{args.profile_dir}/{args.job_name}_rank{rank}_of_{world_size}_{timestamp}"
    
    # Configure profiling based on rank
    if rank == 0 and args.detailed_on_rank_0:
        # More detailed profiling on rank 0
        backend = "cupti_pcsampling"
    else:
        # Standard profiling on other ranks
        backend = "cupti"
    
    # Start profiling
    session_id = proton.start(profile_name, backend=backend, hook="triton")
    
    try:
        proton.activate(session_id)
        
        # Run the actual job
        run_distributed_job(args)
        
    finally:
        proton.deactivate(session_id)
        proton.finalize(session_id)
        
        if rank == 0:
            print(f"Profiles saved to {args.profile_dir}/")

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--job-name", default="distributed_training")
    parser.add_argument("--profile-dir", default="./profiles")
    parser.add_argument("--detailed-on-rank-0", action="store_true")
    args = parser.parse_args()
    
    profile_multi_gpu_job(args)
"""  # noqa: W293

EXIT_METRICS = """
import proton
import time

# Start profiling
session = proton.start("service_profile")
proton.activate(session)

# Track metrics for a batch processing window
batch_latencies = []
batch_sizes = []
scope_id = proton.enter_scope("batch_processing_window")

# Process batches
for batch in batches:
    start = time.time()
    results = process_batch(batch)
    batch_latencies.append(time.time() - start)
    batch_sizes.append(len(batch))

# Record comprehensive metrics at window end
proton.exit_scope(metrics={
    "total_batches": len(batch_latencies),
    "avg_batch_size": sum(batch_sizes) / len(batch_sizes),
    "p95_latency_sec": np.percentile(batch_latencies, 95),
    "p99_latency_sec": np.percentile(batch_latencies, 99),
    "throughput_items_per_sec": sum(batch_sizes) / sum(batch_latencies)
})

proton.finalize(session)
"""

PRACTICES = """
torch.cuda.synchronize()
with proton.scope("critical_kernel"):
    kernel_computation()
torch.cuda.synchronize()

with proton.scope("memory_intensive_op", {
    "allocated_memory_mb": torch.cuda.memory_allocated() / 1e6,
    "reserved_memory_mb": torch.cuda.memory_reserved() / 1e6,
    "gpu_id": local_rank
}):
    large_tensor_operation()

# Profile all-reduce operations
with proton.scope("all_reduce", {"size_mb": tensor.numel() * 4 / 1e6}):
    dist.all_reduce(tensor)

# Track work items per GPU
work_items = get_work_for_rank(rank)
session_id = proton.start(f"workload_rank{rank}_items{len(work_items)}")

for item in work_items:
    with proton.scope(f"process_item_{item.id}"):
        process_item(item)
"""
