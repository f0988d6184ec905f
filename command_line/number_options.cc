#include "millrace/command_line/number_options.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <typeinfo>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace millrace {
namespace {

namespace po = boost::program_options;

// What every option with limits is.
class Limited {
 public:
  virtual ~Limited() = default;
  [[noreturn]] virtual void refuse(const std::string& text) const = 0;
};

std::string shown(std::string_view text) {
  constexpr size_t kMostShown = 60;
  if (text.empty()) return "''";
  std::string line;
  for (const char c : text.substr(0, kMostShown)) {
    line += c >= ' ' && c <= '~' ? c : '?';
  }
  if (text.size() > kMostShown) line += "...";
  return line;
}

// Of the type of the target, `Limit` of the limits.
template <typename T, typename Limit>
class NumberValue final : public po::typed_value<T>, public Limited {
 public:
  NumberValue(T* target, Limit least, Limit most) : po::typed_value<T>(target), least_(least), most_(most) {
    this->value_name(fmt::format("{}..{}", least_, most_));
  }

  void xparse(boost::any& value, const std::vector<std::string>& tokens) const override {
    po::validators::check_first_occurrence(value);
    const std::string text = tokens.empty() ? "" : tokens.front();
    Limit number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    // Not a number is in no range.
    const bool possible = number >= least_ && number <= most_;
    if (tokens.size() != 1 || error != std::errc() || stop != end || !possible) refuse(text);
    value = boost::any(static_cast<T>(number));
  }

  [[noreturn]] void refuse(const std::string& text) const override {
    throw NumberOptionError(text, fmt::format("{}", least_), fmt::format("{}", most_));
  }

 private:
  const Limit least_;
  const Limit most_;
};

}  // namespace

NumberOptionError::NumberOptionError(std::string_view given, std::string_view least, std::string_view most)
    : po::error_with_option_name("%canonical_option% is %given%; %least% to %most% are possible") {
  set_substitute("given", shown(given));
  set_substitute("least", std::string(least));
  set_substitute("most", std::string(most));
}

template <typename T>
po::typed_value<T>* whole_number(T* target, WholeNumberLimits limits) {
  if (!std::in_range<T>(limits.least) || !std::in_range<T>(limits.most)) {
    throw std::logic_error("limits of an option that its type cannot hold");
  }
  return new NumberValue<T, int64_t>(target, limits.least, limits.most);  // program_options deletes it
}
template <typename T>
po::typed_value<T>* whole_number(T& target, WholeNumberLimits limits) {
  return whole_number(&target, limits)->default_value(target);
}
template po::typed_value<int>* whole_number(int*, WholeNumberLimits);
template po::typed_value<int64_t>* whole_number(int64_t*, WholeNumberLimits);
template po::typed_value<int>* whole_number(int&, WholeNumberLimits);
template po::typed_value<int64_t>* whole_number(int64_t&, WholeNumberLimits);
template po::typed_value<uint64_t>* whole_number(uint64_t&, WholeNumberLimits);

po::typed_value<double>* real_number(double* target, RealNumberLimits limits) {
  return new NumberValue<double, double>(target, limits.least, limits.most);
}

po::typed_value<double>* real_number(double& target, RealNumberLimits limits) {
  return real_number(&target, limits)->default_value(target, fmt::format("{}", target));
}

void require_limits(const po::options_description& options) {
  for (const auto& option : options.options()) {
    const po::value_semantic* semantic = option->semantic().get();
    const auto* typed = dynamic_cast<const po::typed_value_base*>(semantic);
    if (typed == nullptr || dynamic_cast<const Limited*>(semantic) != nullptr) continue;
    const std::type_info& type = typed->value_type();
    if (type == typeid(std::string) || type == typeid(std::vector<std::string>)) continue;
    throw std::logic_error(fmt::format("--{} is declared without limits", option->long_name()));
  }
}

void refuse_empty_number(const po::options_description& options, std::string_view option) {
  const std::string name(option.substr(std::min(option.find_first_not_of('-'), option.size())));
  const po::option_description* found = options.find_nothrow(name, /*approx=*/false);
  if (found == nullptr) return;
  const auto* limited = dynamic_cast<const Limited*>(found->semantic().get());
  if (limited == nullptr) return;
  try {
    limited->refuse("");
  } catch (po::error_with_option_name& error) {
    error.add_context(name, "", po::command_line_style::allow_long);
    throw;
  }
}

}  // namespace millrace
