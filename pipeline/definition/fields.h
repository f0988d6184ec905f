// Moves the arguments of calls to and from messages. A call names each of its arguments with the field it has, once for
// both directions:
//
//     template <typename Fields>
//     void visit(Fields& fields, calls::Batch& call) {
//       fields.required("size", call.size);
//       fields.optional("drop_remainder", call.options.drop_remainder);
//     }
#pragma once

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#include <google/protobuf/message.h>

#include "formats/error.h"
#include "formats/utf8.h"
#include "pipeline/definition/function_registry.h"

namespace millrace::definition {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

/// The field of this name. Every message has those that its visit() names: a test visits them all.
inline const FieldDescriptor* field_of(const Message& message, std::string_view name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(std::string(name));
  if (field == nullptr) {
    throw std::logic_error(fmt::format("{} has no field '{}'", message.GetDescriptor()->name(), name));
  }
  return field;
}

/// The field for bytes that are no text, beside the field `name` for text; null where there is none.
inline const FieldDescriptor* field_of_bytes(const Message& message, std::string_view name) {
  return message.GetDescriptor()->FindFieldByName(fmt::format("{}_bytes", name));
}
inline bool is_text(const std::string& value) { return is_valid_utf8(value); }
inline bool is_text(const std::vector<std::string>& values) {
  return std::all_of(values.begin(), values.end(), is_valid_utf8);
}
template <typename T>
constexpr bool kIsText = std::is_same_v<T, std::string> || std::is_same_v<T, std::vector<std::string>>;

template <typename T>
constexpr bool kIsVector = false;
template <typename T>
constexpr bool kIsVector<std::vector<T>> = true;
template <typename T>
constexpr bool kIsScalar = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string>;

/// What a value is before it is read.
template <typename T>
T initial() {
  return T();
}

/// Writes what a call has to a message. What an option has by default is written too, so that a definition keeps its
/// meaning should a default change.
class FieldWriter {
 public:
  static constexpr bool kReads = false;

  explicit FieldWriter(Message& message) : message_(message) {}

  template <typename T>
  void required(std::string_view name, const T& value) {
    put(field_for(name, value), value);
  }
  template <typename T>
  void required(std::string_view name, const std::optional<T>& value) {
    put(field_for(name, *value), *value);
  }
  template <typename T>
  void optional(std::string_view name, const T& value) {
    put(field_for(name, value), value);
  }
  template <typename T>
  void optional(std::string_view name, const std::optional<T>& value) {
    if (value) put(field_for(name, *value), *value);
  }
  /// A function of yours, by its name; throws `kInvalidArgument` when it is not registered.
  template <typename Function>
  void function(std::string_view name, const Function& function) {
    check_registered(function);
    put(field_of(message_, name), function.name);
  }

 private:
  template <typename T>
  const FieldDescriptor* field_for(std::string_view name, const T& value) const {
    if constexpr (kIsText<T>) {
      if (const FieldDescriptor* bytes = field_of_bytes(message_, name); bytes != nullptr && !is_text(value)) {
        return bytes;
      }
    }
    return field_of(message_, name);
  }
  template <typename T>
  void put(const FieldDescriptor* field, const T& value) {
    if constexpr (kIsScalar<T>) {
      put_scalar(field, value);
    } else if constexpr (kIsVector<T>) {
      if (field->is_repeated()) {
        for (const auto& one : value) add(field, one);
      } else {  // a Shape, where none is not the same as one without dimensions
        FieldWriter(*message_.GetReflection()->MutableMessage(&message_, field)).required("sizes", value);
      }
    } else {
      FieldWriter nested(*message_.GetReflection()->MutableMessage(&message_, field));
      visit(nested, const_cast<T&>(value));
    }
  }

  template <typename T>
  void put_scalar(const FieldDescriptor* field, const T& value) {
    const auto* reflection = message_.GetReflection();
    if constexpr (std::is_same_v<T, bool>) {
      reflection->SetBool(&message_, field, value);
    } else if constexpr (std::is_enum_v<T>) {
      reflection->SetEnumValue(&message_, field, static_cast<int>(value) + 1);  // 0 stands for none
    } else if constexpr (std::is_same_v<T, std::string>) {
      reflection->SetString(&message_, field, value);
    } else if constexpr (std::is_floating_point_v<T>) {
      reflection->SetDouble(&message_, field, value);
    } else if constexpr (std::is_unsigned_v<T>) {
      reflection->SetUInt64(&message_, field, value);
    } else {
      reflection->SetInt64(&message_, field, value);
    }
  }

  template <typename T>
  void add(const FieldDescriptor* field, const T& value) {
    const auto* reflection = message_.GetReflection();
    if constexpr (std::is_same_v<T, std::string>) {
      reflection->AddString(&message_, field, value);
    } else if constexpr (std::is_same_v<T, float>) {
      reflection->AddFloat(&message_, field, value);
    } else if constexpr (std::is_floating_point_v<T>) {
      reflection->AddDouble(&message_, field, value);
    } else if constexpr (std::is_unsigned_v<T>) {
      reflection->AddUInt64(&message_, field, value);
    } else if constexpr (std::is_integral_v<T>) {
      reflection->AddInt64(&message_, field, value);
    } else {
      FieldWriter nested(*reflection->AddMessage(&message_, field));
      visit(nested, const_cast<T&>(value));
    }
  }

  Message& message_;
};

/// Reads a call from a message. What is missing and has no default is `kInvalidArgument`.
class FieldReader {
 public:
  static constexpr bool kReads = true;

  explicit FieldReader(const Message& message) : message_(message) {}

  template <typename T>
  void required(std::string_view name, T& value) {
    if (!optional(name, value) && !kIsVector<T>) refuse(fmt::format("'{}' is missing", name));
  }
  /// Whether it was there.
  template <typename T>
  bool optional(std::string_view name, T& value) {
    const FieldDescriptor* field = find_for<T>(name);
    if (!is_there(field)) return false;
    get(field, value);
    check_text(field, value);
    return true;
  }
  template <typename T>
  bool optional(std::string_view name, std::optional<T>& value) {
    const FieldDescriptor* field = find_for<T>(name);
    if (!is_there(field)) return false;
    get(field, value.emplace(initial<T>()));
    check_text(field, *value);
    return true;
  }
  template <typename Function>
  void function(std::string_view name, Function& function) {
    std::string registered;
    required(name, registered);
    function = registered_function<Function>(registered);
  }
  /// After the last field: throws std::logic_error when the message has one that nobody asked for.
  void finish() const {
    std::vector<const FieldDescriptor*> there;
    message_.GetReflection()->ListFields(message_, &there);
    for (const FieldDescriptor* field : there) {
      if (!asked_for_.contains(field)) throw std::logic_error(fmt::format("{} is not read", field->full_name()));
    }
  }
  [[noreturn]] static void refuse(const std::string& message) {
    throw ErrorException(ErrorCode::kInvalidArgument, message);
  }

 private:
  const FieldDescriptor* find(std::string_view name) {
    const FieldDescriptor* field = field_of(message_, name);
    asked_for_.insert(field);
    return field;
  }
  template <typename T>
  const FieldDescriptor* find_for(std::string_view name) {
    const FieldDescriptor* field = find(name);
    if (!kIsText<T>) return field;
    const FieldDescriptor* bytes = field_of_bytes(message_, name);
    if (bytes == nullptr) return field;
    asked_for_.insert(bytes);
    if (!is_there(bytes)) return field;
    if (is_there(field)) refuse(fmt::format("there are both '{}' and '{}'", name, bytes->name()));
    return bytes;
  }
  template <typename T>
  void check_text(const FieldDescriptor* field, const T& value) const {
    if constexpr (kIsText<T>) {
      if (field->type() == FieldDescriptor::TYPE_BYTES || is_text(value)) return;
      const FieldDescriptor* bytes = field_of_bytes(message_, field->name());
      if (bytes != nullptr) refuse(fmt::format("'{}' is no UTF-8; '{}' is for such", field->name(), bytes->name()));
    }
  }
  bool is_there(const FieldDescriptor* field) const {
    const auto* reflection = message_.GetReflection();
    return field->is_repeated() ? reflection->FieldSize(message_, field) > 0 : reflection->HasField(message_, field);
  }

  template <typename T>
  void get(const FieldDescriptor* field, T& value) {
    const auto* reflection = message_.GetReflection();
    if constexpr (kIsScalar<T>) {
      get_scalar(field, value);
    } else if constexpr (kIsVector<T>) {
      value.clear();
      if (field->is_repeated()) {
        for (int i = 0; i < reflection->FieldSize(message_, field); ++i) get_repeated(field, i, value.emplace_back());
      } else {
        FieldReader(reflection->GetMessage(message_, field)).optional("sizes", value);
      }
    } else {
      FieldReader nested(reflection->GetMessage(message_, field));
      visit(nested, value);
      nested.finish();
    }
  }

  template <typename T>
  void get_scalar(const FieldDescriptor* field, T& value) {
    const auto* reflection = message_.GetReflection();
    if constexpr (std::is_same_v<T, bool>) {
      value = reflection->GetBool(message_, field);
    } else if constexpr (std::is_enum_v<T>) {
      const int number = reflection->GetEnumValue(message_, field);
      if (number == 0 || field->enum_type()->FindValueByNumber(number) == nullptr) {
        refuse(fmt::format("'{}' is not one of the names of {}", field->name(), field->enum_type()->name()));
      }
      value = static_cast<T>(number - 1);
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = reflection->GetString(message_, field);
    } else if constexpr (std::is_floating_point_v<T>) {
      value = reflection->GetDouble(message_, field);
    } else if constexpr (std::is_unsigned_v<T>) {
      value = reflection->GetUInt64(message_, field);
    } else {
      value = reflection->GetInt64(message_, field);
    }
  }

  template <typename T>
  void get_repeated(const FieldDescriptor* field, int i, T& value) {
    const auto* reflection = message_.GetReflection();
    if constexpr (std::is_same_v<T, std::string>) {
      value = reflection->GetRepeatedString(message_, field, i);
    } else if constexpr (std::is_same_v<T, float>) {
      value = reflection->GetRepeatedFloat(message_, field, i);
    } else if constexpr (std::is_floating_point_v<T>) {
      value = reflection->GetRepeatedDouble(message_, field, i);
    } else if constexpr (std::is_unsigned_v<T>) {
      value = reflection->GetRepeatedUInt64(message_, field, i);
    } else if constexpr (std::is_integral_v<T>) {
      value = reflection->GetRepeatedInt64(message_, field, i);
    } else {
      FieldReader nested(reflection->GetRepeatedMessage(message_, field, i));
      visit(nested, value);
      nested.finish();
    }
  }

  const Message& message_;
  std::set<const FieldDescriptor*> asked_for_;
};

}  // namespace millrace::definition
