#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "millrace/formats/storage/local.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "tests/formats/storage/remote/object_server.h"

namespace millrace::test {

// Local files through a server of objects and the network: what is opened or listed is put on the server, and read from
// there. Deadlines and waits pass when nothing else goes on.
class ServedFiles final : public Storage {
 public:
  enum class Store { kHttp, kS3, kGoogle };
  using Fault = std::function<ServedFault(const ServedRequest&)>;
  struct Options {
    Store store = Store::kHttp;
    Fault fault = nullptr;  // null: nothing goes wrong; Google's server does of each what comes nearest
    std::optional<uint64_t> changed_at = {};  // at this request all objects get a new version, of the same bytes
  };
  explicit ServedFiles(Options options);
  ~ServedFiles() override;

  void open(const std::string& path, std::shared_ptr<OpenSink> sink) override;
  // By a listing of the store, where it has such.
  [[nodiscard]] std::vector<std::string> glob(const std::string& pattern) override;

 private:
  class Server;
  class Objects;
  class Google;
  void put(const std::string& path);
  [[nodiscard]] std::string url(const std::string& path) const;

  InlineExecutor executor_;
  LocalStorage local_{executor_};
  const Store store_;
  const std::unique_ptr<Server> server_;
  RemoteStorage remote_;
  std::mutex mutex_;
  std::set<std::string> paths_;  // that were put
};

[[nodiscard]] std::string to_string(ServedFiles::Store store);

// Faults after which asking again helps, drawn by the seed for one request in five; three times at most for
// one range.
[[nodiscard]] ServedFiles::Fault drawn_faults(uint64_t seed, ServedFiles::Store store);

}  // namespace millrace::test
