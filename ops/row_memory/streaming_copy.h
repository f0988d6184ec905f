#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace millrace {

/// Whether there are non-temporal stores here. ThreadSanitizer does not see them, so it gets ordinary ones.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
constexpr bool kStreamsRows = true;
#else
constexpr bool kStreamsRows = false;
#endif

/// Copies eight bytes and a row after them with non-temporal stores, past the caches: for rows that are read long
/// after, and most likely by another core. An ordinary store first fetches the cache line that it writes, out of the
/// cache of whoever read it last; this one does not, and leaves the caches to what is read soon. `to` is the start of a
/// cache line, and all of the last line that is begun may be written. Before another thread is told of the row, the one
/// that streamed it calls `fence_streamed_rows`.
void stream_row(std::byte* to, uint64_t header, std::string_view row);
/// Orders the stores of `stream_row` before all that follow.
void fence_streamed_rows();

}  // namespace millrace
