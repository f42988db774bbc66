// The operators of a C++ program, with the shapes of their inputs. Writes profiler_basic.json, for
// Perfetto, and profiler_basic.marey: `marey analyze profiler_basic.marey`.

#include <cstdio>
#include <filesystem>
#include <vector>

#include <marey.hpp>

struct Matrix {
    std::vector<float> values;
    std::int64_t rows, columns;
};

// How marey reads the program's own type.
template <> struct marey::InputTraits<Matrix> {
    static std::vector<std::int64_t> shape(const Matrix &matrix) { return {matrix.rows, matrix.columns}; }
    static const char *dtype(const Matrix &) { return "float"; }
    static const float *data(const Matrix &matrix) { return matrix.values.data(); }
};

static Matrix filled(std::int64_t rows, std::int64_t columns, float value) {
    return {std::vector<float>(static_cast<std::size_t>(rows * columns), value), rows, columns};
}

// An operator: from the macro to the end of the block. The shapes are read only while a profile wants them.
static Matrix matmul(const Matrix &a, const Matrix &b) {
    RECORD_FUNCTION("aten::mm", marey::inputs(a, b));
    Matrix result = filled(a.rows, b.columns, 0);
    for (std::int64_t i = 0; i < a.rows; ++i) {
        for (std::int64_t k = 0; k < a.columns; ++k) {
            const float factor = a.values[static_cast<std::size_t>(i * a.columns + k)];
            for (std::int64_t j = 0; j < b.columns; ++j) {
                result.values[static_cast<std::size_t>(i * b.columns + j)] +=
                    factor * b.values[static_cast<std::size_t>(k * b.columns + j)];
            }
        }
    }
    return result;
}

static Matrix relu(Matrix matrix) {
    RECORD_FUNCTION("aten::relu", matrix);
    for (float &value : matrix.values) {
        value = value > 0 ? value : 0;
    }
    return matrix;
}

int main() {
    marey::ProfilerConfig config(marey::ProfilerState::KINETO);
    config.report_input_shapes = true;
    config.with_flops = true;
    config.experimental_config.verbose = true; // modules and the scopes around each operator
    marey::enableProfiler(config, {marey::ActivityType::CPU, marey::ActivityType::CUDA});

    const Matrix weights = filled(64, 32, 0.5F);
    Matrix output;
    for (int step = 0; step < 3; ++step) {
        RECORD_USER_SCOPE("step");
        RECORD_MODULE("encoder");
        output = relu(matmul(filled(16, 64, 1), weights));
    }

    // Without libmarey.so the program ran as it would without marey, and there are no events.
    const auto result = marey::disableProfiler();
    for (const std::string &warning : result->warnings()) {
        std::fprintf(stderr, "%s\n", warning.c_str());
    }
    for (const marey::Event &event : result->events()) {
        std::printf("%-12s %8.1f us %10.0f FLOP  %s\n", event.name().c_str(), event.duration_us(),
                    event.flops(), event.module_hierarchy().c_str());
    }
    result->save("profiler_basic.json");
    std::filesystem::remove_all("profiler_basic.marey"); // of an earlier time: a run is not replaced
    result->save("profiler_basic.marey");
}
