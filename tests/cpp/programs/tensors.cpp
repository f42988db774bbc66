// Inputs of Eigen and, with ATEN defined, of ATen, whose headers come after ours with MAREY_FIRST.
#ifdef MAREY_FIRST
#include "report.hpp"
#endif

#ifdef ATEN
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/record_function.h>
#else
#include <Eigen/Core>
#endif

#include "report.hpp"

int main() {
    marey::ProfilerConfig config;
    config.report_input_shapes = true;
    marey::set_record_concrete_inputs_enabled(true);
    marey::enableProfiler(config, {marey::ActivityType::CPU});
#ifdef ATEN
    const at::Tensor tensor = at::arange(6, at::kFloat).reshape({2, 3});
    const at::Tensor integers = at::arange(3, at::kLong);
    const at::Tensor none;
    {
        MAREY_RECORD_FUNCTION("tensors", marey::inputs(tensor, tensor.t(), integers, none));
    }
    std::string error;
    if (!marey::enableTorchOperators(true, &error)) {
        std::printf("%s\n", error.c_str());
    }
    {
        MAREY_RECORD_FUNCTION("around", {});
        RECORD_FUNCTION("of ATen", std::vector<c10::IValue>());
        tensor.add(tensor);
    }
    const std::vector<at::Tensor> list = {tensor, integers};
    { MAREY_RECORD_FUNCTION("list", list); }
#else
    Eigen::MatrixXf matrix(2, 3); // stored by columns
    matrix << 1, 2, 3, 4, 5, 6;
    const Eigen::Matrix<double, 2, 2, Eigen::RowMajor> rows{{1, 2}, {3, 4}};
    const Eigen::VectorXi vector = Eigen::VectorXi::Ones(2);
    const Eigen::Map<const Eigen::MatrixXf> map(matrix.data(), 3, 2);
    { MAREY_RECORD_FUNCTION("tensors", marey::inputs(matrix, rows, vector, map)); }
    const Eigen::Vector2cf complex(std::complex<float>(1, 2), std::complex<float>(0.5F, -1));
    const Eigen::Matrix<Eigen::half, 1, 2> halves(Eigen::half(1.5F), Eigen::half(-2));
    { MAREY_RECORD_FUNCTION("other numbers", marey::inputs(complex, halves)); }
#endif
    const auto result = marey::disableProfiler();
    report(*result);
    result->save("run.marey");
}
