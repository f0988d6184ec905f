#pragma once

#include <functional>
#include <memory>
#include <string>

#include "millrace/formats/storage/local.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "tests/formats/storage/remote/object_server.h"

namespace millrace::test {

// Local files through a server of objects and the network: what is opened is put on the server, and read from there.
// Deadlines and waits pass when nothing else goes on.
class ServedFiles final : public Storage {
 public:
  using Fault = std::function<ServedFault(const ServedRequest&)>;
  explicit ServedFiles(Fault fault = nullptr);
  ~ServedFiles() override;

  void open(const std::string& path, std::shared_ptr<OpenSink> sink) override;
  [[nodiscard]] std::vector<std::string> glob(const std::string& pattern) override { return glob_local(pattern); }
  [[nodiscard]] std::vector<ServedRequest> requests() const { return server_.requests(); }

 private:
  class Puts;
  ObjectServer server_;
  InlineExecutor executor_;
  LocalStorage local_{executor_};
  RemoteStorage remote_;
  const std::unique_ptr<Puts> puts_;
};

// Faults after which asking again helps, drawn by the seed for one request in five; three times at most for
// one range.
[[nodiscard]] ServedFiles::Fault drawn_faults(uint64_t seed);

}  // namespace millrace::test
