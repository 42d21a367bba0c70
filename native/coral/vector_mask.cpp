// Masks, permutations, and moves between the vector unit and scalar registers.
#include "vector.hpp"

namespace tilewright::coral {

using O = Operation;

bool Machine::vector_mask(const Decoded& d) {
  Vector v(*this, d);
  const auto logic = [&](auto function) {
    v.each_bit(false, [&](uint32_t i) { return function(v.bit(v.vs2, i), v.bit(v.vs1, i)); });
    return true;
  };
  switch (d.operation) {
    case O::vmandn:
      return logic([](bool a, bool b) { return a && !b; });
    case O::vmand:
      return logic([](bool a, bool b) { return a && b; });
    case O::vmor:
      return logic([](bool a, bool b) { return a || b; });
    case O::vmxor:
      return logic([](bool a, bool b) { return a != b; });
    case O::vmorn:
      return logic([](bool a, bool b) { return a || !b; });
    case O::vmnand:
      return logic([](bool a, bool b) { return !(a && b); });
    case O::vmnor:
      return logic([](bool a, bool b) { return !(a || b); });
    case O::vmxnor:
      return logic([](bool a, bool b) { return a == b; });
    case O::vmv_x_s:
      x[d.rd] = by_width(v.width, [&](auto u) {
        return static_cast<uint32_t>(static_cast<std::make_signed_t<decltype(u)>>(v.get<decltype(u)>(v.vs2, 0)));
      });
      return true;
    case O::vmv_s_x:
      if (vl > 0)
        by_width(v.width, [&](auto u) {
          v.set<decltype(u)>(v.vd, 0, static_cast<decltype(u)>(x[v.vs1]));
          v.tail<decltype(u)>(1, 0);
        });
      return true;
    case O::vcpop: {
      uint32_t count = 0;
      for (uint32_t i = 0; i < vl; ++i) count += v.active(i) && v.bit(v.vs2, i);
      x[d.rd] = count;
      return true;
    }
    case O::vfirst: {
      uint32_t found = 0xffffffff;
      for (uint32_t i = vl; i-- > 0;)
        if (v.active(i) && v.bit(v.vs2, i)) found = i;
      x[d.rd] = found;
      return true;
    }
    case O::vmsbf:
    case O::vmsof:
    case O::vmsif: {
      if (!v.mask_ok() || v.vd == v.vs2) return refuse();
      bool seen = false;
      v.each_bit(true, [&](uint32_t i) {
        const bool b = v.bit(v.vs2, i), before = seen;
        seen |= b;
        if (d.operation == O::vmsbf) return !seen;
        return d.operation == O::vmsof ? b && !before : !before;
      });
      return true;
    }
    case O::viota: {
      if (!v.mask_ok() || !aligned(v.vd, v.log) || overlap(v.vd, group_size(v.log), v.vs2, 1)) return refuse();
      uint32_t count = 0;
      by_width(v.width, [&](auto u) {
        using U = decltype(u);
        v.each<U>([&](uint32_t i) {
          const uint32_t before = count;
          count += v.bit(v.vs2, i);
          return static_cast<U>(before);
        });
      });
      return true;
    }
    default:  // vid
      if (!v.mask_ok() || !aligned(v.vd, v.log)) return refuse();
      by_width(v.width, [&](auto u) { v.each<decltype(u)>([](uint32_t i) { return static_cast<decltype(u)>(i); }); });
      return true;
  }
}

bool Machine::vector_permute(const Decoded& d) {
  Vector v(*this, d);
  if (d.operation == O::vmvr) {
    const uint32_t count = v.vs1 + 1;
    if (v.vd & v.vs1 || v.vs2 & v.vs1) return refuse();
    std::memmove(&this->v[v.vd * kVectorBytes], &this->v[v.vs2 * kVectorBytes], count * kVectorBytes);
    return true;
  }
  const uint32_t base = kVectorBytes >> v.width;
  const uint32_t most = v.log >= 0 ? base << v.log : base >> -v.log;
  const auto groups = [&] { return v.mask_ok() && aligned(v.vd, v.log) && aligned(v.vs2, v.log); };
  switch (d.operation) {
    case O::vrgather:
      if (!groups() || v.vd == v.vs2 || (v.kind == ivv && (!aligned(v.vs1, v.log) || v.vd == v.vs1))) return refuse();
      by_width(v.width, [&](auto u) {
        using U = decltype(u);
        const uint32_t scalar = v.kind == ivi ? v.vs1 : x[v.vs1];
        v.each<U>([&](uint32_t i) {
          const uint32_t index = v.kind == ivv ? v.get<U>(v.vs1, i) : scalar;
          return index < most ? v.get<U>(v.vs2, index) : U{0};
        });
      });
      return true;
    case O::vrgatherei16: {
      const int log = 1 - static_cast<int>(v.width) + v.log;
      if (log > 3 || !groups() || !aligned(v.vs1, log) || v.vd == v.vs2 ||
          overlap(v.vd, group_size(v.log), v.vs1, group_size(log)))
        return refuse();
      by_width(v.width, [&](auto u) {
        using U = decltype(u);
        v.each<U>([&](uint32_t i) {
          const uint32_t index = v.get<uint16_t>(v.vs1, i);
          return index < most ? v.get<U>(v.vs2, index) : U{0};
        });
      });
      return true;
    }
    case O::vslideup:
    case O::vslidedown:
    case O::vslide1up:
    case O::vslide1down: {
      const bool up = d.operation == O::vslideup || d.operation == O::vslide1up;
      const bool one = d.operation == O::vslide1up || d.operation == O::vslide1down;
      if (!groups() || (up && v.vd == v.vs2)) return refuse();
      const uint64_t offset = one ? 1 : v.kind == ivi ? v.vs1 : x[v.vs1];
      by_width(v.width, [&](auto u) {
        using U = decltype(u);
        const U scalar = static_cast<U>(x[v.vs1]);
        v.each<U>([&](uint32_t i) -> U {
          if (up) {
            if (i >= offset) return v.get<U>(v.vs2, static_cast<uint32_t>(i - offset));
            return one ? scalar : v.get<U>(v.vd, i);
          }
          if (one && i == vl - 1) return scalar;
          return i + offset < most ? v.get<U>(v.vs2, static_cast<uint32_t>(i + offset)) : U{0};
        });
      });
      return true;
    }
    default: {  // vcompress
      if (!aligned(v.vd, v.log) || !aligned(v.vs2, v.log) || v.vd == v.vs2 ||
          overlap(v.vd, group_size(v.log), v.vs1, 1))
        return refuse();
      by_width(v.width, [&](auto u) {
        using U = decltype(u);
        uint32_t count = 0;
        for (uint32_t i = 0; i < vl; ++i)
          if (v.bit(v.vs1, i)) v.set<U>(v.vd, count++, v.get<U>(v.vs2, i));
        v.tail<U>(count, v.log);
      });
      return true;
    }
  }
}

}  // namespace tilewright::coral
