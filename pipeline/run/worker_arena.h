#pragma once

#include <oneapi/tbb/task_arena.h>

namespace millrace {

/// An arena for `threads`, of which `reserved` are no workers of oneTBB. It has no more slots for workers than there
/// are workers now, the cores less one or what the program says (`WorkerLimit`, `tbb::global_control`): more would stay
/// empty, and oneTBB would warn about them on standard error. Without workers it has one slot all the same, since a
/// task from outside forces one into being. Any thread.
tbb::task_arena worker_arena(int threads, int reserved);

/// Makes the arena, which is otherwise made when it is first used. Where there is no memory for it the process ends
/// (std::terminate, with std::bad_alloc): oneTBB keeps its lock then, and whoever asks it for anything later would wait
/// forever. Any thread.
void initialize(tbb::task_arena& arena) noexcept;

}  // namespace millrace
