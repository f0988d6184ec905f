#pragma once

#include <chrono>
#include <stop_token>
#include <string>

namespace millrace {

/// Runs a command by `/bin/sh` in a process group of its own, with nothing to read, and gives what it wrote to its
/// output; what it says as errors goes nowhere, since it may be a secret. Throws `kIo`, in one line without the command
/// and what it wrote: it cannot be started, failed, wrote more than 64 KiB, or is not done by the deadline, or when
/// it is asked to stop, at which the whole group is killed. Waits for the command: never on the engine's thread.
[[nodiscard]] std::string run_credential_process(const std::string& command, std::chrono::milliseconds deadline,
                                                 const std::stop_token& stop = {});

}  // namespace millrace
