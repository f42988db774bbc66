// Training of a small network in C++ over libtorch: each operator, of backward too, is below the scope
// that called it. Writes torch_training.marey: `marey analyze torch_training.marey`.

#include <cstdio>
#include <filesystem>
#include <string>

#include <ATen/core/Tensor.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>

#include <marey.hpp>

int main() {
    marey::ProfilerConfig config;
    config.report_input_shapes = true;
    marey::enableProfiler(config, {marey::ActivityType::CPU, marey::ActivityType::CUDA});
    // Without libmarey.so the program runs as it would without marey.
    std::string error;
    if (!marey::enableTorchOperators(true, &error)) {
        std::fprintf(stderr, "operators are not recorded: %s\n", error.c_str());
    }
    at::Tensor weight = at::randn({64, 64}).set_requires_grad(true);
    const at::Tensor input = at::randn({128, 64});
    const at::Tensor target = at::randn({128, 64});
    for (int step = 0; step < 3; ++step) {
        // With the prefix: ATen has macros of the same names.
        MAREY_RECORD_USER_SCOPE("step");
        at::Tensor loss;
        {
            MAREY_RECORD_FUNCTION("forward", marey::inputs(input, weight));
            loss = at::mse_loss(at::relu(at::mm(input, weight)), target);
        }
        {
            MAREY_RECORD_USER_SCOPE("backward");
            loss.backward();
        }
        MAREY_RECORD_USER_SCOPE("update");
        weight = weight.detach().sub(weight.grad(), 0.01).set_requires_grad(true);
    }
    const auto result = marey::disableProfiler();
    marey::enableTorchOperators(false);
    std::filesystem::remove_all("torch_training.marey"); // of an earlier time
    result->save("torch_training.marey");
}
