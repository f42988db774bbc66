/*
 * Data of Proton's C++ interface that is a session of marey's recorder: TreeData and TraceData.
 */
#ifndef MAREY_PROTON_RECORDER_DATA_HPP
#define MAREY_PROTON_RECORDER_DATA_HPP

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "data.hpp"

namespace proton {
inline namespace MAREY_PROTON_VERSION {

/**
 * A session of the recorder, which begins here and ends with dump() or with this object: see
 * TreeData and TraceData.
 *
 * With a ShadowContextSource or a PythonContextSource the session records what any session does:
 * scopes of all libraries and languages, operators of PyTorch, kernels. With another source, or none,
 * it records only what it is told.
 *
 * Metrics of another type than the node has are dropped and counted in `losses.metrics_refused`.
 * They can be added to open scopes and to the last 65,536 scopes that were exited and operators;
 * those for older ones are counted in `losses.metrics_unfetched`.
 */
class RecorderData : public Data {
public:
    ~RecorderData() override {
        if (!hasEnded_) {
            marey_finalize(session_, nullptr);
        }
    }

    RecorderData(const RecorderData &) = delete;
    RecorderData &operator=(const RecorderData &) = delete;

    std::int64_t recorderSession() const override { return session_; }
    bool isTrace() const override { return isTrace_; }
    bool canWrite(OutputFormat format) const override {
        return isTrace_ || format == OutputFormat::Hatchet || format == OutputFormat::HatchetMsgPack;
    }

    /** Records the scope, unless the recorder has recorded it itself, and remembers its node. */
    void enterScope(const Scope &scope) override {
        const marey_table_t *table = marey_live_table_();
        if (table == nullptr) {
            return;
        }
        Node node = isOwnSource() ? nodeAt(*table, contextsOf(scope)) : nodeHere(*table);
        remember(scope.scopeId, ScopeNode{std::move(node), true});
    }

    /** Exits the scope. Its number stays valid for metrics. */
    void exitScope(const Scope &scope) override {
        Node node, forgotten;
        {
            const std::lock_guard<std::mutex> lock(detail::dataMutex());
            const auto found = nodes_.find(scope.scopeId);
            if (found != nodes_.end() && found->second.isOpen) {
                node = found->second.node;
                forgotten = close(scope.scopeId, found->second);
            }
        }
        if (node != nullptr && isOwnSource()) {
            marey_load()->detached_exit(node.get());
        }
    }

    std::size_t addOp(std::size_t scopeId, const std::string &opName = {}) override {
        const marey_table_t *table = marey_live_table_();
        if (table == nullptr) {
            return scopeId;
        }
        if (const std::optional<Node> parent = find(scopeId)) {
            const std::size_t op = Scope::getNewScopeId();
            remember(op, ScopeNode{child(*table, *parent, opName, MAREY_KIND_OPERATOR), false});
            return op;
        }
        Node node = isOwnSource() ? nodeAt(*table, contexts()) : nodeHere(*table);
        if (!opName.empty()) {
            node = child(*table, node, opName, MAREY_KIND_OPERATOR);
        }
        remember(scopeId, ScopeNode{std::move(node), false});
        return scopeId;
    }

    void addMetric(std::size_t scopeId, std::shared_ptr<Metric> metric) override {
        std::vector<std::pair<std::string, MetricValueType>> values;
        for (int id = 0; id < static_cast<int>(metric->getValues().size()); ++id) {
            if (auto value = metric->getStoredValue(id)) {
                const char *suffix = metric->isProperty(id)    ? "(pty)"
                                     : metric->isExclusive(id) ? "(exc)"
                                                               : "";
                values.emplace_back(metric->getValueName(id) + suffix, std::move(*value));
            }
        }
        add(scopeId, values);
    }

    void addMetrics(std::size_t scopeId,
                    const std::map<std::string, MetricValueType> &metrics) override {
        add(scopeId, metrics);
    }

    /** Starts recording. */
    void activate() override { call(marey_activate); }
    /** Stops recording until the next activate(). */
    void deactivate() override { call(marey_deactivate); }

    /** Ends the session and writes its file. What is recorded after this is dropped. */
    void dump(OutputFormat format) override {
        const marey_table_t *table = marey_load();
        if (table == nullptr || hasEnded_) {
            return;
        }
        const std::string suffix = outputFormatToString(format);
        marey_error_t error;
        table->finalize(session_, suffix.data(), suffix.size(), nullptr, nullptr, &error);
        forgetAll();
        // The end of the process, or another binding, may have ended the session before.
        if (error.code != MAREY_ERROR_NOT_FOUND) {
            detail::check(error);
        }
    }

protected:
    /** Starts a session of the recorder, which does not record yet. */
    RecorderData(const std::string &file, ContextSource *source, OutputFormat format)
        : Data(file, source),
          isTrace_(format == OutputFormat::ChromeTrace || format == OutputFormat::Run) {
        const marey_table_t *table = marey_load();
        if (table == nullptr) {
            return;
        }
        marey_start_options_t options{};
        options.size = sizeof options;
        options.name = path.data();
        options.name_len = path.size();
        options.context = isOwnSource() ? MAREY_SHADOW : *source->recorderContext();
        options.format = static_cast<std::uint32_t>(format);
        options.is_addressed_only = isOwnSource();
        marey_error_t error;
        const std::int64_t session = table->start(&options, &error);
        if (detail::check(error) && session >= 0) {
            session_ = session;
            hasEnded_ = false;
            root_ = own(table->session_scope(session_, nullptr, nullptr));
        }
    }

    /** Passes the profile so far to a stream. A trace has none before its end, which is an error. */
    void doDump(std::ostream &os, OutputFormat format) const override {
        const marey_table_t *table = marey_load();
        if (table == nullptr) {
            return;
        }
        const std::string suffix = outputFormatToString(format);
        const marey_sink_t write = [](void *stream, const std::uint8_t *bytes, std::size_t len) {
            static_cast<std::ostream *>(stream)->write(reinterpret_cast<const char *>(bytes),
                                                       static_cast<std::streamsize>(len));
        };
        marey_error_t error;
        table->get_data(session_, 0, suffix.data(), suffix.size(), write, &os, &error);
        detail::check(error);
    }

private:
    static constexpr std::size_t MAX_CLOSED_NODES = 65536;
    /* Number of the cause `metrics_unfetched`. */
    static constexpr std::uint8_t METRICS_UNFETCHED = 18;

    /* A node of this session's tree; null if the session does not have it. */
    using Node = std::shared_ptr<const marey_detached_t>;

    /* The node of a scope or operator, kept for metrics after its exit. */
    struct ScopeNode {
        Node node;
        bool isOpen;
    };

    std::int64_t session_ = MAREY_NO_SESSION;
    bool isTrace_;
    bool hasEnded_ = true;
    Node root_;
    std::unordered_map<std::size_t, ScopeNode> nodes_;
    std::deque<std::size_t> closed_;

    bool isOwnSource() const {
        return contextSource == nullptr || !contextSource->recorderContext();
    }

    std::vector<Context> contexts() {
        return contextSource == nullptr ? std::vector<Context>{} : contextSource->getContexts();
    }

    /* Returns the calling thread's contexts with the scope as the last of them. */
    std::vector<Context> contextsOf(const Scope &scope) {
        std::vector<Context> names = contexts();
        if (names.empty() || names.back() != scope) {
            names.push_back(scope);
        }
        return names;
    }

    void call(int (*function)(std::int64_t, marey_error_t *)) {
        marey_error_t error;
        if (!hasEnded_ && function(session_, &error) != MAREY_ERROR_NOT_FOUND) {
            detail::check(error);
        }
    }

    static Node own(const marey_detached_t *node) {
        return node == nullptr ? Node() : Node(node, marey_load()->detached_release);
    }

    /* Returns the calling thread's innermost scope in this session. */
    Node nodeHere(const marey_table_t &table) const {
        const Node scope = own(table.detached_here());
        return scope == nullptr ? scope : own(table.session_scope(session_, scope.get(), nullptr));
    }

    /* Returns the node at the end of a path, entered as a scope. */
    Node nodeAt(const marey_table_t &table, const std::vector<Context> &names) const {
        Node last = root_;
        for (const Context &context : names) {
            last = child(table, last, context.name, MAREY_KIND_SCOPE);
        }
        return last;
    }

    static Node child(const marey_table_t &table, const Node &parent, const std::string &name,
                      marey_kind kind) {
        if (parent == nullptr) {
            return parent;
        }
        const std::uint32_t number = detail::intern(table, name);
        return own(table.detached_enter(parent.get(), number, static_cast<std::uint8_t>(kind)));
    }

    MAREY_PROTON_HIDDEN std::optional<Node> find(std::size_t scopeId) const {
        const std::lock_guard<std::mutex> lock(detail::dataMutex());
        const auto found = nodes_.find(scopeId);
        return found == nodes_.end() ? std::nullopt : std::optional<Node>(found->second.node);
    }

    MAREY_PROTON_HIDDEN void remember(std::size_t scopeId, ScopeNode scopeNode) {
        Node forgotten;  // released after the lock
        const std::lock_guard<std::mutex> lock(detail::dataMutex());
        if (!hasEnded_) {
            ScopeNode &slot = nodes_[scopeId];
            std::swap(slot, scopeNode);
            if (!slot.isOpen) {
                forgotten = close(scopeId, slot);
            }
        }
    }

    /* Marks a scope as closed. Forgets the oldest of too many, and returns its node. */
    Node close(std::size_t scopeId, ScopeNode &scopeNode) {
        scopeNode.isOpen = false;
        closed_.push_back(scopeId);
        if (closed_.size() <= MAX_CLOSED_NODES) {
            return Node();
        }
        const auto oldest = nodes_.find(closed_.front());
        closed_.pop_front();
        if (oldest == nodes_.end() || oldest->second.isOpen) {
            return Node();
        }
        Node node = std::move(oldest->second.node);
        nodes_.erase(oldest);
        return node;
    }

    MAREY_PROTON_HIDDEN void forgetAll() {
        std::unordered_map<std::size_t, ScopeNode> forgotten;  // released after the lock
        const std::lock_guard<std::mutex> lock(detail::dataMutex());
        hasEnded_ = true;
        nodes_.swap(forgotten);
        closed_.clear();
    }

    /* Adds values by their names to a scope or operator. */
    template <typename Values> void add(std::size_t scopeId, const Values &values) {
        const marey_table_t *table = marey_live_table_();
        if (table == nullptr) {
            return;
        }
        std::vector<marey_metric_t> metrics;
        std::vector<std::int64_t> integers(values.size());
        for (const auto &[name, value] : values) {
            marey_metric_t metric{table->intern_metric(name.data(), name.size()), 0, nullptr, 1};
            if (const auto *text = std::get_if<std::string>(&value)) {
                metric.tag = MAREY_TEXT;
                metric.data = text->data();
                metric.len = text->size();
            } else if (const auto *number = std::get_if<double>(&value)) {
                metric.tag = MAREY_FLOAT;
                metric.data = number;
            } else {
                integers[metrics.size()] = toInteger(value);
                metric.tag = MAREY_INT;
                metric.data = &integers[metrics.size()];
            }
            metrics.push_back(metric);
        }
        if (const std::optional<Node> node = find(scopeId)) {
            if (*node != nullptr) {
                table->detached_add_metrics(node->get(), metrics.data(), metrics.size(), nullptr);
            }
        } else if (isForgotten(scopeId)) {
            table->count_losses(METRICS_UNFETCHED, metrics.size());
        }
    }

    /* Numbers are given out in order: an unknown one above the oldest that is known belongs to no scope
     * of this data. */
    MAREY_PROTON_HIDDEN bool isForgotten(std::size_t scopeId) const {
        const std::lock_guard<std::mutex> lock(detail::dataMutex());
        return closed_.size() == MAX_CLOSED_NODES && scopeId < closed_.front();
    }

    static std::int64_t toInteger(const MetricValueType &value) {
        if (const auto *integer = std::get_if<std::int64_t>(&value)) {
            return *integer;
        }
        constexpr auto MAX = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
        const auto *whole = std::get_if<std::uint64_t>(&value);
        return static_cast<std::int64_t>(whole == nullptr ? 0 : *whole < MAX ? *whole : MAX);
    }
};

/** Sums of scopes, operators and metrics by path. Writes `.hatchet` files, or MessagePack. */
class TreeData : public RecorderData {
public:
    /** A tree for `file` with the suffix of its format. Paths are those of the source. */
    explicit TreeData(const std::string &file, ContextSource *source = nullptr)
        : RecorderData(file, source, OutputFormat::Hatchet) {}
};

/** Single scopes and values with their times. Writes Chrome traces, or runs for `marey analyze`. */
class TraceData : public RecorderData {
public:
    /** A trace for `file` with the suffix of its format. Paths are those of the source. */
    explicit TraceData(const std::string &file, ContextSource *source = nullptr,
                       OutputFormat format = OutputFormat::ChromeTrace)
        : RecorderData(file, source, format) {}
};

} // namespace MAREY_PROTON_VERSION
} // namespace proton

#endif // MAREY_PROTON_RECORDER_DATA_HPP
