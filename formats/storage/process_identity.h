#pragma once

#include <optional>
#include <string>

namespace millrace {

/// Which process one is, so that another can tell whether it still runs. Numbers and host names of processes repeat, in
/// containers at each start.
struct ProcessIdentity {
  std::string host = {};     ///< for people
  int process = 0;           ///< its number
  std::string started = {};  ///< ticks since the machine's start; tells processes of one number apart
  std::string machine = {};  ///< this start of this machine, and the space of its process numbers; empty: nobody knows

  /// Of this process.
  [[nodiscard]] static ProcessIdentity own();
  /// Whether it has ended; nothing where it was on another machine, in another container, or nobody knows.
  [[nodiscard]] std::optional<bool> has_ended() const;
  /// `process 4711 on HOST`.
  [[nodiscard]] std::string to_string() const;
};

}  // namespace millrace
