#pragma once

#include <cstdint>
#include <functional>

namespace millrace::test {

enum class FileFault {
  kKill,      ///< SIGKILL in front of the call; in the middle of it, where it is a write
  kDiskFull,  ///< this call and all later ones that need room fail with ENOSPC; a write first writes half
};

/// From now on, counts the calls by which this process changes files (creating, linking, writing, syncing, renaming,
/// removing; for kDiskFull only creating, linking and writing), and gives the fault to number `call`, from 1. The C
/// library's functions are replaced in every program that this is linked into; nothing changes as long as no fault is
/// armed. Output that the C library writes by itself (printf) is not counted. One thread at a time.
void arm_file_fault(FileFault fault, int64_t call);

void disarm_file_fault();

/// What `flock` does from now on, as long as it is not empty; `real_flock` is the C library's. Any thread calls it.
void replace_flock(std::function<int(int file, int operation)> flock);
int real_flock(int file, int operation);

}  // namespace millrace::test
