#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace millrace {

/// The bytes of an object at a URL, of `RemoteStorage::of_process`, which is read once in a process as long as all such
/// have no more than 64 MiB: a run goes on with what it began with, also where the store refuses it later. Nothing
/// where there is no such object. Blocks; any thread. Throws `kIo`: it cannot be read, or is longer than 1 GiB.
[[nodiscard]] std::optional<std::string> find_whole_object(const std::string& url, std::string_view what);
/// What begins with a URL is something else now: the next call reads it anew.
void forget_whole_objects(const std::string& prefix);

}  // namespace millrace
