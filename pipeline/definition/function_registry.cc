#include "millrace/pipeline/definition/function_registry.h"

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "millrace/pipeline/dataset.h"

namespace millrace {
namespace {

template <typename Function>
struct Registered {
  std::mutex mutex;
  std::map<std::string, Function, std::less<>> functions;
};
template <typename Function>
Registered<Function>& registered() {
  static Registered<Function> registered;
  return registered;
}

}  // namespace

template <UserFunction Function>
void FunctionRegistry<Function>::add(Function function) {
  std::string name = function.name;
  if (name.empty()) refuse_argument(fmt::format("register_function: a {} without a name", Function::kKind));
  auto& [mutex, functions] = registered<Function>();
  const std::lock_guard lock(mutex);
  if (!functions.emplace(name, std::move(function)).second) {
    refuse_argument(fmt::format("register_function: there is a {} '{}' already", Function::kKind, name));
  }
}

template <UserFunction Function>
Function FunctionRegistry<Function>::find(std::string_view name) {
  auto& [mutex, functions] = registered<Function>();
  const std::lock_guard lock(mutex);
  const auto found = functions.find(name);
  if (found != functions.end()) return found->second;
  std::vector<std::string> names;
  names.reserve(functions.size());
  for (const auto& [there, function] : functions) names.push_back(there);
  refuse_argument(fmt::format("{} '{}' is not registered (register_function); there are: {}", Function::kKind, name,
                              names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

template class FunctionRegistry<RowFunction>;
template class FunctionRegistry<BlockFunction>;
template class FunctionRegistry<RowPredicate>;
template class FunctionRegistry<BlockPredicate>;
template class FunctionRegistry<ScanFunction>;
template class FunctionRegistry<DatasetFunction>;
template class FunctionRegistry<RowKey>;
template class FunctionRegistry<WindowSize>;
template class FunctionRegistry<Generator>;

}  // namespace millrace
