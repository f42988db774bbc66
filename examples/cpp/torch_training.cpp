// Training of a small network in C++ over libtorch: each operator, of backward too, is below the scope
// that called it. Writes torch_training.hatchet: `marey view torch_training.hatchet`.

#include <cstdio>

#include <ATen/core/Tensor.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>

#include <marey.h>

int main() {
    marey_error_t error;
    marey_start("torch_training", nullptr, nullptr);
    // Without libmarey.so the program runs as it would without marey.
    if (const marey_table_t *table = marey_load()) {
        if (table->torch_operators(true, 0, 0, &error) != MAREY_OK) {
            std::fprintf(stderr, "operators are not recorded: %s\n", error.message);
        }
    }
    at::Tensor weight = at::randn({64, 64}).set_requires_grad(true);
    const at::Tensor input = at::randn({128, 64});
    const at::Tensor target = at::randn({128, 64});
    for (int step = 0; step < 3; ++step) {
        MAREY_SCOPE("step");
        at::Tensor loss;
        {
            MAREY_SCOPE("forward");
            loss = at::mse_loss(at::relu(at::mm(input, weight)), target);
        }
        {
            MAREY_SCOPE("backward");
            loss.backward();
        }
        MAREY_SCOPE("update");
        weight = weight.detach().sub(weight.grad(), 0.01).set_requires_grad(true);
    }
}
