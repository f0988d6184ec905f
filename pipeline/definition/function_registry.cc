#include "millrace/pipeline/definition/function_registry.h"

#include <map>
#include <mutex>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/pipeline/dataset.h"

namespace millrace {
namespace {

template <typename Function>
struct Registry {
  std::mutex mutex;
  std::map<std::string, Function, std::less<>> functions;

  static Registry& instance() {
    static Registry registry;
    return registry;
  }

  void add(Function function) {
    std::string name = function.name;
    if (name.empty()) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("register_function: a {} without a name", Function::kKind));
    }
    const std::lock_guard lock(mutex);
    if (!functions.emplace(name, std::move(function)).second) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("register_function: there is a {} '{}' already", Function::kKind, name));
    }
  }

  // Throws when there is none.
  Function find(std::string_view name) {
    const std::lock_guard lock(mutex);
    const auto found = functions.find(name);
    if (found != functions.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [there, function] : functions) names.push_back(there);
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("{} '{}' is not registered (register_function); there are: {}", Function::kKind,
                                     name, names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  }
};

}  // namespace

void register_function(RowFunction function) { Registry<RowFunction>::instance().add(std::move(function)); }
void register_function(BlockFunction function) { Registry<BlockFunction>::instance().add(std::move(function)); }
void register_function(RowPredicate predicate) { Registry<RowPredicate>::instance().add(std::move(predicate)); }
void register_function(BlockPredicate predicate) { Registry<BlockPredicate>::instance().add(std::move(predicate)); }
void register_function(ScanFunction function) { Registry<ScanFunction>::instance().add(std::move(function)); }
void register_function(DatasetFunction function) { Registry<DatasetFunction>::instance().add(std::move(function)); }
void register_function(RowKey key) { Registry<RowKey>::instance().add(std::move(key)); }
void register_function(Generator generator) { Registry<Generator>::instance().add(std::move(generator)); }
void register_function(WindowSize by_key) { Registry<WindowSize>::instance().add(std::move(by_key)); }

template <typename Function>
Function registered_function(std::string_view name) {
  return Registry<Function>::instance().find(name);
}

template <typename Function>
void check_registered(const Function& function) {
  (void)Registry<Function>::instance().find(function.name);
}

template RowFunction registered_function<RowFunction>(std::string_view);
template BlockFunction registered_function<BlockFunction>(std::string_view);
template RowPredicate registered_function<RowPredicate>(std::string_view);
template BlockPredicate registered_function<BlockPredicate>(std::string_view);
template ScanFunction registered_function<ScanFunction>(std::string_view);
template DatasetFunction registered_function<DatasetFunction>(std::string_view);
template RowKey registered_function<RowKey>(std::string_view);
template WindowSize registered_function<WindowSize>(std::string_view);
template Generator registered_function<Generator>(std::string_view);
template void check_registered(const RowFunction&);
template void check_registered(const BlockFunction&);
template void check_registered(const RowPredicate&);
template void check_registered(const BlockPredicate&);
template void check_registered(const ScanFunction&);
template void check_registered(const DatasetFunction&);
template void check_registered(const RowKey&);
template void check_registered(const WindowSize&);
template void check_registered(const Generator&);

}  // namespace millrace
