/// @file
/// `ModuleScope`, a module of the program. Its macro, `RECORD_MODULE`, is in `macros.hpp`.
#ifndef MAREY_MODULE_HPP
#define MAREY_MODULE_HPP

#include "recording.hpp"
#include "version.hpp"

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace marey {
inline namespace MAREY_HPP_VERSION_ {

/// A module from here to the end of the block: a scope, and a part of the "Module Hierarchy" of the
/// scopes inside.
class ModuleScope {
public:
    /// Begins a module. The name is UTF-8.
    explicit ModuleScope(std::string_view name) noexcept {
        if (detail::is_listened_to()) {
            enter(name);
        }
    }

    /// Ends the module.
    ~ModuleScope() {
        if (thread_ != nullptr) {
            const detail::Inside inside(*thread_);
            thread_->modules.pop_back();
            if (is_entered_) {
                detail::exit_ended_elsewhere(*thread_);
                marey_scope_exit(name_);
            }
        }
    }

    ModuleScope(const ModuleScope &) = delete;
    ModuleScope &operator=(const ModuleScope &) = delete;

private:
    void enter(std::string_view name) noexcept {
        detail::Thread *thread = nullptr;
        MAREY_TRY_ { thread = detail::this_thread(); }
        MAREY_CATCH_ALL_ {}
        // As for scopes; a guard may also be in a callback, in which nothing is recorded.
        if (thread == nullptr || thread->disabled > 0 || thread->inside > 0 ||
            detail::shared()->is_off.load(std::memory_order_relaxed)) {
            return;
        }
        const detail::Inside inside(*thread);
        detail::exit_ended_elsewhere(*thread);
        MAREY_TRY_ {
            std::string path = thread->modules.empty() ? "" : thread->modules.back() + ".";
            thread->modules.push_back(path.append(name));
        }
        MAREY_CATCH_ALL_ { return; }
        thread_ = thread;
        const detail::Shared &shared = *detail::shared();
        const bool is_in_profile =
            detail::profile_of_thread(shared, *thread) != 0 &&
            (shared.options.load(std::memory_order_relaxed) & detail::records_scopes) != 0;
        if (is_in_profile || shared.profile == 0 || !detail::is_only_session(shared)) {
            name_ = marey_load()->intern(name.data(), name.size());
            is_entered_ = marey_scope_enter_kind(name_, MAREY_KIND_MODULE) != 0;
        }
    }

    detail::Thread *thread_ = nullptr;
    std::uint32_t name_ = 0;
    bool is_entered_ = false;
};

} // namespace MAREY_HPP_VERSION_
} // namespace marey

#endif // MAREY_MODULE_HPP
