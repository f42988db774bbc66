/// @file
/// `ProfilerResult`: the events of a profile, and its files.
#ifndef MAREY_RESULT_HPP
#define MAREY_RESULT_HPP

#include "trace_json.hpp"
#include "version.hpp"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace marey {
inline namespace MAREY_HPP_VERSION_ {

/// The events of a profile that has ended, in the order of their starts.
class ProfilerResult {
public:
    /// No events.
    ProfilerResult() = default;

    /// `run` is the path of the run; `owns_run` is false if it belongs to a session around the
    /// profile.
    ProfilerResult(detail::TraceHeader header, std::vector<Event> events, std::string run,
                   bool owns_run)
        : header_(std::move(header)), events_(std::move(events)), run_(std::move(run)),
          owns_run_(owns_run) {}

    /// Deletes the run, unless it was saved.
    ~ProfilerResult() {
        if (owns_run_) {
            std::error_code ignored;
            std::filesystem::remove_all(run_, ignored);
        }
    }

    ProfilerResult(const ProfilerResult &) = delete;
    ProfilerResult &operator=(const ProfilerResult &) = delete;

    /// Scopes, reports of memory, device activities, and calls of a device's API.
    const std::vector<Event> &events() const { return events_; }
    /// When the profile was enabled, in nanoseconds since 1970.
    std::int64_t trace_start_ns() const { return header_.start_ns; }
    /// When the profile was disabled, in nanoseconds since 1970.
    std::int64_t trace_end_ns() const { return header_.end_ns; }
    /// The identifier from the configuration.
    const std::string &trace_id() const { return header_.trace_id; }
    /// Sentences on what could not be recorded, and why.
    const std::vector<std::string> &warnings() const { return header_.warnings; }
    /// Events that were not kept: beyond `max_events` or memory, or interrupted by a signal.
    std::uint64_t dropped_events() const { return header_.dropped_events; }

    /// Writes the profile to a file. A path that ends in `.marey` gets the run, for the command
    /// `marey` and its Python package, once; another one a Chrome trace in JSON, which replaces an
    /// existing file. The run has the scopes of the profile, also beyond `max_events`, with inputs,
    /// native stacks, counters and devices, and what else the recorder has seen: scopes of `marey.h`
    /// and of Python. Reports of memory, FLOP and module paths are in the trace alone. Returns false
    /// if that fails, with the reason in `error`, or on the standard error output if `error` is null.
    bool save(const std::string &path, std::string *error = nullptr) {
        constexpr std::string_view suffix = ".marey";
        const bool is_run = path.size() >= suffix.size() &&
                            path.compare(path.size() - suffix.size(), suffix.size(), suffix) == 0;
        const std::string reason = is_run ? save_run(path) : save_trace(path);
        if (error != nullptr) {
            *error = reason;
        } else if (!reason.empty()) {
            std::fprintf(stderr, "marey: cannot save %s: %s\n", path.c_str(), reason.c_str());
        }
        return reason.empty();
    }

private:
    std::string save_trace(const std::string &path) {
        if (header_.start_ns == 0) {
            return no_profile;
        }
        std::FILE *file = std::fopen(path.c_str(), "wb");
        if (file == nullptr) {
            return std::strerror(errno);
        }
        header_.title = std::filesystem::path(path).filename().string();
        detail::TraceWriter writer(file, header_, events_);
        writer.write(events_, header_);
        const bool is_closed = std::fclose(file) == 0;
        return writer.is_written() && is_closed ? "" : std::strerror(errno);
    }

    std::string save_run(const std::string &path) {
        if (header_.start_ns == 0) {
            return no_profile;
        }
        if (!owns_run_) {
            return run_.empty() ? "there is no run, or it was saved already"
                                : "the run is a part of " + run_;
        }
        std::error_code failed;
        if (std::filesystem::exists(path, failed)) {
            return "it exists already";
        }
        std::filesystem::rename(run_, path, failed);
        if (failed) { // another file system
            failed.clear();
            std::filesystem::copy(run_, path, std::filesystem::copy_options::recursive, failed);
            if (failed) {
                return failed.message();
            }
            std::filesystem::remove_all(run_, failed);
        }
        owns_run_ = false;
        run_.clear();
        return "";
    }

    static constexpr const char *no_profile =
        "nothing was recorded: no profile was enabled, libmarey.so was not found (set MAREY_LIB), or "
        "another library of the process has another version of marey.hpp or standard library";

    detail::TraceHeader header_;
    std::vector<Event> events_;
    std::string run_;
    bool owns_run_ = false;
};

} // namespace MAREY_HPP_VERSION_
} // namespace marey

#endif // MAREY_RESULT_HPP
