/*
 * marey/proton.hpp: the C++ classes of Triton's profiler Proton, over marey's recorder. C++17,
 * header-only, links with -ldl where the C library wants it. See docs/cpp-proton.md.
 *
 *     auto &manager = proton::SessionManager::instance();
 *     const std::size_t session = manager.addSession("profile", "", "", "shadow", "tree");
 *     manager.activateSession(session);
 *     const proton::Scope scope("solve");
 *     manager.enterScope(scope);
 *     manager.addMetrics(scope.scopeId, {{"energy (J)", 1.5}});
 *     manager.exitScope(scope);
 *     manager.finalizeSession(session, proton::OutputFormat::Hatchet);
 *
 * A scope costs a lock and some allocations in each session; annotate hot paths with marey.h, whose
 * scopes are in the same tree. Without libmarey.so nothing is recorded and no file is written.
 */
#ifndef MAREY_PROTON_HPP
#define MAREY_PROTON_HPP

#include "proton/context.hpp"
#include "proton/data.hpp"
#include "proton/metric.hpp"
#include "proton/profiler.hpp"
#include "proton/recorder_data.hpp"
#include "proton/session.hpp"
#include "proton/session_manager.hpp"

#endif // MAREY_PROTON_HPP
