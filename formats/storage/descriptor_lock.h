#pragma once

#include <string>

namespace millrace {

/// What a lock of an open file or directory (flock) came to. Such a lock belongs to whoever opened it, and goes when
/// that is closed or the process dies, however it dies.
enum class Locked {
  kYes,
  kByAnother,  ///< somebody else has it, in this process or another one
  kUnknown,    ///< the file system has no locks, or none left: nobody can tell
};

/// Locks it for one alone, without waiting.
[[nodiscard]] Locked lock_alone(int descriptor);

/// Whether the name still means what was opened by it: between the two somebody may have put another in its place.
[[nodiscard]] bool has_name(int descriptor, const std::string& path);

}  // namespace millrace
