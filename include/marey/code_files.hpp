/// @file
/// The files of machine code of the process, and places in them. No file is read.
#ifndef MAREY_CODE_FILES_HPP
#define MAREY_CODE_FILES_HPP

#include "version.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <link.h>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace marey {
inline namespace MAREY_HPP_VERSION_ {
namespace detail {

/// A file of machine code where it was loaded.
struct CodeFile {
    std::string path;
    std::string build_id; // its first 16 hexadecimal digits; empty if it has none
    std::uintptr_t base;  // what was added to the addresses in the file

    bool operator==(const CodeFile &other) const {
        return base == other.base && path == other.path && build_id == other.build_id;
    }
};

/// An address and its file, null if it is in none.
struct CodePlace {
    std::uintptr_t address;
    const CodeFile *file;

    std::uintptr_t address_in_file() const { return address - (file != nullptr ? file->base : 0); }
};

/// The executable addresses of a file.
struct CodeRange {
    std::uintptr_t start;
    std::uintptr_t end;
    const CodeFile *file;
};

/// The code that was loaded when a thread last looked.
struct LoadedCode {
    std::vector<CodeRange> ranges;  // by their addresses
    unsigned long long loads = 0;   // of files, by this process
    unsigned long long unloads = 0;

    /// Returns the file that has an address, null if none has.
    const CodeFile *file_of(std::uintptr_t address) const {
        const auto after = std::upper_bound(
            ranges.begin(), ranges.end(), address,
            [](std::uintptr_t wanted, const CodeRange &range) { return wanted < range.start; });
        const bool is_inside = after != ranges.begin() && address < std::prev(after)->end;
        return is_inside ? std::prev(after)->file : nullptr;
    }
};

/// Returns the build id in the notes of a program header; empty if they have none.
inline std::string build_id_in(const char *note, std::size_t size, std::size_t alignment) {
    constexpr std::size_t max_bytes = 8;
    const std::size_t mask = alignment == 8 ? 7 : 3;
    while (size >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) header;
        std::memcpy(&header, note, sizeof header);
        const std::size_t name_end = sizeof header + header.n_namesz;
        const std::size_t start = (name_end + mask) & ~mask;
        const std::size_t end = (start + header.n_descsz + mask) & ~mask;
        if (end > size) {
            break;
        }
        if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 &&
            std::memcmp(note + sizeof header, "GNU", 4) == 0) {
            std::string digits;
            for (std::size_t i = 0; i < std::min<std::size_t>(header.n_descsz, max_bytes); i++) {
                char two[3];
                std::snprintf(two, sizeof two, "%02x",
                              static_cast<unsigned>(static_cast<unsigned char>(note[start + i])));
                digits += two;
            }
            return digits;
        }
        note += end;
        size -= end;
    }
    return "";
}

/// Returns the path of a loaded file, absolute where that is known. The program itself has no name.
inline std::string code_path(const char *name) {
    if (name == nullptr || *name == '\0') {
        char path[4096];
        const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
        return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : "?";
    }
    char *absolute = *name == '/' ? nullptr : realpath(name, nullptr);
    const std::string path = absolute != nullptr ? absolute : name;
    std::free(absolute);
    return path;
}

/// A file that was found, and its executable addresses.
struct FoundCode {
    CodeFile file;
    std::vector<CodeRange> ranges;
};

/// The result of a search of the loaded files. None are listed if none has changed since the last search.
struct CodeSearch {
    unsigned long long loads;
    unsigned long long unloads;
    bool is_new;
    std::vector<FoundCode> found;
};

inline int receive_code(dl_phdr_info *info, std::size_t, void *to) {
    CodeSearch &search = *static_cast<CodeSearch *>(to);
    if (!search.is_new && search.loads == info->dlpi_adds && search.unloads == info->dlpi_subs) {
        return 1;
    }
    search.is_new = true;
    search.loads = info->dlpi_adds;
    search.unloads = info->dlpi_subs;
    FoundCode code = {{code_path(info->dlpi_name), "", info->dlpi_addr}, {}};
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) &part = info->dlpi_phdr[i];
        const std::uintptr_t start = info->dlpi_addr + part.p_vaddr;
        if (part.p_type == PT_LOAD && (part.p_flags & PF_X) != 0) {
            code.ranges.push_back({start, start + part.p_memsz, nullptr});
        } else if (part.p_type == PT_NOTE && code.file.build_id.empty()) {
            code.file.build_id = build_id_in(reinterpret_cast<const char *>(start), part.p_memsz,
                                             part.p_align);
        }
    }
    search.found.push_back(std::move(code));
    return 0;
}

/// Returns the known file that equals `found`, which becomes known if none does.
inline const CodeFile *known_file(std::vector<std::unique_ptr<CodeFile>> &known, CodeFile found) {
    for (const std::unique_ptr<CodeFile> &file : known) {
        if (*file == found) {
            return file.get();
        }
    }
    known.push_back(std::make_unique<CodeFile>(std::move(found)));
    return known.back().get();
}

/// Brings `code` up to date, if files were loaded or closed since the last look. `mutex` guards `known`,
/// whose files are never freed.
template <class Mutex>
void update_code(LoadedCode &code, std::vector<std::unique_ptr<CodeFile>> &known, Mutex &mutex) {
    CodeSearch search = {code.loads, code.unloads, code.ranges.empty(), {}};
    dl_iterate_phdr(receive_code, &search);
    if (!search.is_new) {
        return;
    }
    std::vector<CodeRange> ranges;
    const std::lock_guard<Mutex> guard(mutex);
    for (FoundCode &found : search.found) {
        const CodeFile *file = known_file(known, std::move(found.file));
        for (CodeRange &range : found.ranges) {
            range.file = file;
            ranges.push_back(range);
        }
    }
    std::sort(ranges.begin(), ranges.end(), [](const CodeRange &one, const CodeRange &other) {
        return one.start < other.start;
    });
    code.ranges.swap(ranges);
    code.loads = search.loads;
    code.unloads = search.unloads;
}

/// Returns a place as `FILE+0xADDRESS`, or the address alone.
inline std::string place_text(const CodePlace &place) {
    char number[32];
    std::snprintf(number, sizeof number, "0x%zx", static_cast<std::size_t>(place.address_in_file()));
    return place.file == nullptr ? number : place.file->path + "+" + number;
}

/// Returns a place as the recorder keeps it: with the build id of the file behind a space.
inline std::string recorded_place(const CodePlace &place) {
    const bool has_id = place.file != nullptr && !place.file->build_id.empty();
    return place_text(place) + (has_id ? " " + place.file->build_id : "");
}

} // namespace detail
} // namespace MAREY_HPP_VERSION_
} // namespace marey

#endif // MAREY_CODE_FILES_HPP
