#pragma once

#include <functional>
#include <string>

namespace millrace::test {

/// What looking up the name of a host comes to as long as this is there: 127.0.0.1 where `look_up` gives 0, else the
/// error of `getaddrinfo` that it gives. It may block; any thread calls it, several at a time. `getaddrinfo` is
/// replaced in every program that this is linked into; other names go to that of the C library. One at a time.
class HostName {
 public:
  HostName(std::string name, std::function<int()> look_up);
  /// Waits until nobody is in `look_up`.
  ~HostName();
  HostName(const HostName&) = delete;
  HostName& operator=(const HostName&) = delete;
};

}  // namespace millrace::test
