// The interpreter: predecoded instructions, each with the address of its handler. One body, three
// ways to run it: `fast` (bounds and counts), `full` (cycle model and optional checks after every
// instruction), `single` (one instruction; for what `fast` does not check itself).
#include <bit>

#include "floats.hpp"
#include "machine.hpp"

namespace tilewright::coral {
namespace {

enum Mode { fast, full, single };

uint32_t or_combine(uint32_t a) {
  uint32_t result = 0;
  for (int k = 0; k < 4; ++k)
    if (a >> 8 * k & 0xff) result |= 0xffu << 8 * k;
  return result;
}

int32_t divide(int32_t a, int32_t b) {
  if (b == 0) return -1;
  if (a == INT32_MIN && b == -1) return a;
  return a / b;
}
int32_t remainder(int32_t a, int32_t b) {
  if (b == 0) return a;
  if (a == INT32_MIN && b == -1) return 0;
  return a % b;
}

bool branch_taken(Operation operation, uint32_t a, uint32_t b) {
  switch (operation) {
    case Operation::beq:
      return a == b;
    case Operation::bne:
      return a != b;
    case Operation::blt:
      return static_cast<int32_t>(a) < static_cast<int32_t>(b);
    case Operation::bge:
      return static_cast<int32_t>(a) >= static_cast<int32_t>(b);
    case Operation::bltu:
      return a < b;
    default:
      return a >= b;
  }
}

}  // namespace

bool Machine::stack_ok(uint32_t at) {
  if (!has_stack || !stack_checked) return true;
  if (x[2] < stack_low) stack_low = x[2];
  if (x[2] >= stack_bottom && x[2] <= stack_top) return true;
  fault = {FaultKind::stack_range, at, x[2]};
  return false;
}

// The cycle model's step, and whose time it was.
void Machine::account(const Decoded& d, uint32_t next, uint32_t first) {
  const size_t word = pc / 4;
  uint64_t spent = 0;
  if (options.timing) {
    const uint64_t before = timing.cycles();
    timing.step(*this, d, pc, next, first);
    spent = timing.cycles() - before;
    if (cycle_counts.size() < code.size()) cycle_counts.resize(code.size());
    cycle_counts[word] += spent;
  }
  if (word < owners.size() && owners[word] >= 0) owner = owners[word];
  if (owner >= 0) {
    owner_instructions[static_cast<size_t>(owner)] += 1;
    owner_cycles[static_cast<size_t>(owner)] += spent;
  }
}

void Machine::run(uint64_t max_instructions) {
  if (halted || fault.kind != FaultKind::none) return;
  const bool slow =
      options.timing || options.check_uninitialised || options.check_readonly || options.check_fused_hazard;
  slow ? execute<full>(max_instructions) : execute<fast>(max_instructions);
}

template <int mode>
void Machine::execute(uint64_t limit) {
  static const void* const labels[] = {
#define X(name) &&l_##name,
      CORAL_SCALAR_OPERATIONS(X)
#undef X
  };
  const auto label_of = [](Operation operation) {
    return labels[operation <= Operation::sp_write ? static_cast<int>(operation) : static_cast<int>(Operation::vector)];
  };
  if (mode == fast && !prepared_) {
    for (size_t k = 0; k < code.size(); ++k) {
      Decoded& d = code[k];
      d.handler = label_of(d.operation);
      const bool relative = d.type == Class::branch || d.operation == Operation::jal;
      const int64_t target = static_cast<int64_t>(k) * 4 + d.immediate;
      if (relative && (target & 3 || target < 0 || target >= static_cast<int64_t>(code.size() - 1) * 4))
        d.handler = d.type == Class::branch ? &&l_branch_far : &&l_jal_far;
      if ((writes_integer(d.type) && d.rd == 2) || (has_stack && k == main_address / 4)) d.handler = &&l_sp_write;
    }
    prepared_ = true;
  }

  uint32_t* const regs = x.data();
  Decoded* const first_instruction = code.data();
  Decoded* d = nullptr;
  uint64_t remaining = limit;
  const uint64_t before = instructions, traps_before = trap_count;
  uint8_t* const data = memory.data().bytes.data();
  const uint32_t data_base = memory.data().base, data_size = memory.data().size;
  uint32_t target = pc, old_stack = regs[2], first = 0;

#define PC() (static_cast<uint32_t>(d - first_instruction) * 4)
#define COUNT_OUT() (instructions = before + (limit - remaining) - (trap_count - traps_before))
#define RD regs[d->rd]
#define A regs[d->rs1]
#define B regs[d->rs2]
#define SA static_cast<int32_t>(A)
#define SB static_cast<int32_t>(B)
#define IMM static_cast<uint32_t>(d->immediate)
#define DISPATCH()                                             \
  do {                                                         \
    if (remaining == 0) goto l_out_of_budget;                  \
    --remaining;                                               \
    ++d->count;                                                \
    if constexpr (mode == fast) {                              \
      goto * d->handler;                                       \
    } else {                                                   \
      pc = PC();                                               \
      if (has_stack && !stack_checked && pc == main_address) { \
        stack_checked = true;                                  \
        if (!stack_ok(pc)) goto l_checked_out;                 \
      }                                                        \
      old_stack = regs[2];                                     \
      first = regs[d->rs1];                                    \
      if constexpr (mode == full) {                            \
        if (!check_fused(*d)) goto l_checked_out;              \
      }                                                        \
      goto* label_of(d->operation);                            \
    }                                                          \
  } while (0)
// After an instruction: where control went is `next`.
#define FINISH(next)                                                                 \
  do {                                                                               \
    Decoded* const after_it = (next);                                                \
    if constexpr (mode != fast) {                                                    \
      if (regs[2] != old_stack && !stack_ok(pc)) goto l_leave;                       \
      if constexpr (mode == full) {                                                  \
        account(*d, static_cast<uint32_t>(after_it - first_instruction) * 4, first); \
      }                                                                              \
      if constexpr (mode == single) {                                                \
        d = after_it;                                                                \
        goto l_leave;                                                                \
      }                                                                              \
    }                                                                                \
    d = after_it;                                                                    \
    DISPATCH();                                                                      \
  } while (0)
#define NEXT() FINISH(d + 1)
#define TRAP(kind, value)        \
  do {                           \
    trap_kind = FaultKind::kind; \
    trap_value = (value);        \
    goto l_trap;                 \
  } while (0)
#define BRANCH(condition)                \
  do {                                   \
    if (condition) {                     \
      if constexpr (mode == fast) {      \
        ++taken_branches;                \
        note_jump(PC(), PC() + IMM);     \
        FINISH(d + (d->immediate >> 2)); \
      } else {                           \
        goto l_take_branch;              \
      }                                  \
    }                                    \
    NEXT();                              \
  } while (0)
#define LOAD(type, count, destination, convert)                         \
  do {                                                                  \
    const uint32_t address = A + IMM;                                   \
    const uint32_t offset = address - data_base;                        \
    if constexpr (mode == full) {                                       \
      if (!check_read(address, count)) goto l_checked_out;              \
    }                                                                   \
    if (__builtin_expect(offset <= data_size - count, 1)) {             \
      type loaded;                                                      \
      std::memcpy(&loaded, data + offset, count);                       \
      destination = convert(loaded);                                    \
    } else {                                                            \
      uint32_t slow;                                                    \
      if (!load_slow(address, count, slow)) TRAP(load_bounds, address); \
      destination = convert(static_cast<type>(slow));                   \
    }                                                                   \
    NEXT();                                                             \
  } while (0)
#define STORE(count, value)                                 \
  do {                                                      \
    const uint32_t address = A + IMM;                       \
    const uint32_t offset = address - data_base;            \
    const uint32_t stored = (value);                        \
    if constexpr (mode == full) {                           \
      if (!check_write(address, count)) goto l_checked_out; \
    }                                                       \
    if (__builtin_expect(offset <= data_size - count, 1)) { \
      std::memcpy(data + offset, &stored, count);           \
    } else if (!store_slow(address, count, stored)) {       \
      TRAP(store_bounds, address);                          \
    }                                                       \
    NEXT();                                                 \
  } while (0)
#define SET(value) \
  do {             \
    RD = (value);  \
    NEXT();        \
  } while (0)
#define ROUNDING()                       \
  uint32_t rounding = d->word >> 12 & 7; \
  if (rounding == 7) rounding = frm;     \
  if (rounding > 4) goto l_illegal
#define FLOAT(expression)    \
  do {                       \
    ROUNDING();              \
    f[d->rd] = (expression); \
    NEXT();                  \
  } while (0)

  goto l_go_to_target;

  // clang-format off
l_lui: SET(IMM);
l_auipc: SET(PC() + IMM);
l_addi: SET(A + IMM);
l_slti: SET(SA < d->immediate);
l_sltiu: SET(A < IMM);
l_xori: SET(A ^ IMM);
l_ori: SET(A | IMM);
l_andi: SET(A & IMM);
l_slli: SET(A << IMM);
l_srli: SET(A >> IMM);
l_srai: SET(static_cast<uint32_t>(SA >> IMM));
l_add: SET(A + B);
l_sub: SET(A - B);
l_sll: SET(A << (B & 31));
l_slt: SET(SA < SB);
l_sltu: SET(A < B);
l_xor_: SET(A ^ B);
l_srl: SET(A >> (B & 31));
l_sra: SET(static_cast<uint32_t>(SA >> (B & 31)));
l_or_: SET(A | B);
l_and_: SET(A & B);
l_mul: SET(A * B);
l_mulh: SET(static_cast<uint32_t>(static_cast<int64_t>(SA) * SB >> 32));
l_mulhsu: SET(static_cast<uint32_t>(static_cast<int64_t>(SA) * static_cast<int64_t>(B) >> 32));
l_mulhu: SET(static_cast<uint32_t>(static_cast<uint64_t>(A) * B >> 32));
l_div: SET(static_cast<uint32_t>(divide(SA, SB)));
l_divu: SET(B ? A / B : 0xffffffff);
l_rem: SET(static_cast<uint32_t>(remainder(SA, SB)));
l_remu: SET(B ? A % B : A);
l_andn: SET(A & ~B);
l_orn: SET(A | ~B);
l_xnor: SET(~(A ^ B));
l_clz: SET(static_cast<uint32_t>(std::countl_zero(A)));
l_ctz: SET(static_cast<uint32_t>(std::countr_zero(A)));
l_cpop: SET(static_cast<uint32_t>(std::popcount(A)));
l_max: SET(SA > SB ? A : B);
l_maxu: SET(A > B ? A : B);
l_min: SET(SA < SB ? A : B);
l_minu: SET(A < B ? A : B);
l_sext_b: SET(static_cast<uint32_t>(static_cast<int8_t>(A)));
l_sext_h: SET(static_cast<uint32_t>(static_cast<int16_t>(A)));
l_zext_h: SET(A & 0xffff);
l_rol: SET(std::rotl(A, B & 31));
l_ror: SET(std::rotr(A, B & 31));
l_rori: SET(std::rotr(A, d->immediate));
l_orc_b: SET(or_combine(A));
l_rev8: SET(__builtin_bswap32(A));
l_sh1add: SET((A << 1) + B);
l_sh2add: SET((A << 2) + B);
l_sh3add: SET((A << 3) + B);

l_beq: BRANCH(A == B);
l_bne: BRANCH(A != B);
l_blt: BRANCH(SA < SB);
l_bge: BRANCH(SA >= SB);
l_bltu: BRANCH(A < B);
l_bgeu: BRANCH(A >= B);

l_lb: LOAD(int8_t, 1, RD, static_cast<uint32_t>);
l_lh: LOAD(int16_t, 2, RD, static_cast<uint32_t>);
l_lw: LOAD(uint32_t, 4, RD, static_cast<uint32_t>);
l_lbu: LOAD(uint8_t, 1, RD, static_cast<uint32_t>);
l_lhu: LOAD(uint16_t, 2, RD, static_cast<uint32_t>);
l_flw: LOAD(uint32_t, 4, f[d->rd], static_cast<uint32_t>);
l_sb: STORE(1, B);
l_sh: STORE(2, B);
l_sw: STORE(4, B);
l_fsw: STORE(4, f[d->rs2]);

l_fmadd: FLOAT(floats::fused(f[d->rs1], f[d->rs2], f[d->rs3], rounding, fflags));
l_fmsub: FLOAT(floats::fused(f[d->rs1], f[d->rs2], f[d->rs3] ^ floats::kSign, rounding, fflags));
l_fnmsub: FLOAT(floats::fused(f[d->rs1] ^ floats::kSign, f[d->rs2], f[d->rs3], rounding, fflags));
l_fnmadd: FLOAT(floats::fused(f[d->rs1] ^ floats::kSign, f[d->rs2], f[d->rs3] ^ floats::kSign, rounding, fflags));
l_fadd: FLOAT(floats::add(f[d->rs1], f[d->rs2], rounding, fflags));
l_fsub: FLOAT(floats::subtract(f[d->rs1], f[d->rs2], rounding, fflags));
l_fmul: FLOAT(floats::multiply(f[d->rs1], f[d->rs2], rounding, fflags));
l_fdiv: FLOAT(floats::divide(f[d->rs1], f[d->rs2], rounding, fflags));
l_fsqrt: FLOAT(floats::square_root(f[d->rs1], rounding, fflags));
l_fcvt_s: FLOAT(floats::from_integer(SA, rounding, fflags));
l_fcvt_su: FLOAT(floats::from_integer(A, rounding, fflags));
l_fsgnj: f[d->rd] = (f[d->rs1] & 0x7fffffff) | (f[d->rs2] & floats::kSign); NEXT();
l_fsgnjn: f[d->rd] = (f[d->rs1] & 0x7fffffff) | (~f[d->rs2] & floats::kSign); NEXT();
l_fsgnjx: f[d->rd] = f[d->rs1] ^ (f[d->rs2] & floats::kSign); NEXT();
l_fmin: f[d->rd] = floats::choose(f[d->rs1], f[d->rs2], false, fflags); NEXT();
l_fmax: f[d->rd] = floats::choose(f[d->rs1], f[d->rs2], true, fflags); NEXT();
l_fmv_f: f[d->rd] = A; NEXT();
l_fmv_x: SET(f[d->rs1]);
l_fclass: SET(floats::classify(f[d->rs1]));
l_feq: SET(floats::equal(f[d->rs1], f[d->rs2], fflags));
l_flt: SET(floats::less(f[d->rs1], f[d->rs2], fflags));
l_fle: SET(floats::less_equal(f[d->rs1], f[d->rs2], fflags));
l_fcvt_w: { ROUNDING(); SET(static_cast<uint32_t>(floats::to_integer(f[d->rs1], INT32_MIN, INT32_MAX, rounding, fflags))); }
l_fcvt_wu: { ROUNDING(); SET(static_cast<uint32_t>(floats::to_integer(f[d->rs1], 0, UINT32_MAX, rounding, fflags))); }
  // clang-format on

l_fence:
l_fence_i:
  NEXT();
l_ecall:
  TRAP(ecall, 0);
l_ebreak:
  // The core raises its fault line and stops; mtvec is not entered.
  pc = PC();
  --d->count, ++remaining;
  halted = true;
  fault = {FaultKind::ebreak, pc, 0};
  goto l_leave;
l_wfi:
  pc = PC();
  --d->count, ++remaining;
  fault = {FaultKind::wfi, pc, 0};
  goto l_leave;
l_mpause:
  pc = PC();
  if constexpr (mode == full) {
    account(*d, pc, 0);
  }
  halted = true;
  goto l_leave;
l_mret:
  {
    mstatus = (mstatus & ~0x88u) | (mstatus >> 7 & 1) << 3 | 0x80;
    target = mepc & ~3u;
    goto l_jump;
  }
l_jal:
  if constexpr (mode == fast) {
    note_jump(PC(), PC() + IMM);
    RD = PC() + 4;
    FINISH(d + (d->immediate >> 2));
  }
l_jal_far:
  target = PC() + IMM;
  if (target & 3) TRAP(misaligned_fetch, target);
  RD = PC() + 4;
  goto l_jump;
l_jalr:
  target = (A + IMM) & ~1u;
  if (target & 3) TRAP(misaligned_fetch, target);
  RD = PC() + 4;
  goto l_jump;
l_branch_far:
  if (!branch_taken(d->operation, A, B)) NEXT();
  goto l_take_branch;
l_take_branch:
  target = PC() + IMM;
  if (target & 3) TRAP(misaligned_fetch, target);
  ++taken_branches;
l_jump:
  // A jump that has happened; its target may lie outside of the code.
  note_jump(PC(), target);
  if (target / 4 < code.size()) FINISH(first_instruction + target / 4);
  if constexpr (mode == full) {
    account(*d, target, first);
  }
  if constexpr (mode != fast) {
    if (regs[2] != old_stack && !stack_ok(pc)) goto l_leave;
  }
l_go_to_target:
  // Continue at `target`, where there may be no instruction.
  while (target / 4 >= code.size()) {
    pc = target;
    if (remaining == 0) goto l_budget_at_pc;
    --remaining;
    const bool inside = target < memory.code().size;
    const FaultKind kind = inside ? FaultKind::illegal : FaultKind::fetch_bounds;
    if (!trap(kind, target, inside ? 0 : target)) {
      ++remaining;
      goto l_leave;
    }
    target = pc;
  }
  d = first_instruction + target / 4;
  DISPATCH();

l_csrrw:
l_csrrs:
l_csrrc:
l_csrrwi:
l_csrrsi:
l_csrrci:
  {
    const uint32_t number = d->word >> 20, kind = d->word >> 12 & 3;
    const uint32_t source = d->word >> 14 & 1 ? d->rs1 : A;
    const bool writes = kind == 1 || d->rs1 != 0;
    const bool reads = kind != 1 || d->rd != 32;
    pc = PC();
    // An instruction does not count itself.
    COUNT_OUT();
    instructions -= 1;
    uint32_t old = 0;
    if (!read_csr(number, old) && (reads || !writes)) goto l_illegal;
    if (writes) {
      const uint32_t value = kind == 1 ? source : kind == 2 ? old | source : old & ~source;
      if (!write_csr(number, value)) goto l_illegal;
    }
    RD = old;
    NEXT();
  }

l_vsetvli:
l_vsetivli:
l_vsetvl:
  set_vector_type(*d);
  NEXT();
l_vector:
  pc = PC();
  if (!execute_vector(*d)) {
    if (fault.kind != FaultKind::none) goto l_checked_out;
    if (trap_kind == FaultKind::illegal) goto l_illegal;
    goto l_trap;
  }
  NEXT();

l_sp_write:
  if constexpr (mode == fast) {
    --d->count;
    ++remaining;
    COUNT_OUT();
    pc = PC();
    const uint64_t now = instructions, traps_now = trap_count;
    execute<single>(1);
    // What it retired or trapped is spent.
    remaining -= (instructions - now) + (trap_count - traps_now);
    if (halted || fault.kind != FaultKind::none) {
      COUNT_OUT();
      return;
    }
    target = pc;
    goto l_go_to_target;
  }
l_fetch_end:
  TRAP(fetch_bounds, PC());
l_illegal:
  trap_kind = FaultKind::illegal;
  trap_value = d->word;
l_trap:
  --d->count;
  pc = PC();
  if (!trap(trap_kind, pc, trap_value)) {
    ++remaining;
    goto l_leave;
  }
  target = pc;
  if constexpr (mode == single) goto l_leave;
  goto l_go_to_target;

l_checked_out:
  // A check ended the run before this instruction took effect.
  --d->count;
  ++remaining;
  pc = PC();
  goto l_leave;
l_out_of_budget:
  pc = PC();
l_budget_at_pc:
  if constexpr (mode == single) {
    COUNT_OUT();
    return;
  }
  fault = {FaultKind::max_instructions, pc, 0};
  goto l_leave;
l_leave:
  if constexpr (mode == single) {
    if (!halted && fault.kind == FaultKind::none && trap_count == traps_before) pc = PC();
  }
  COUNT_OUT();
}

}  // namespace tilewright::coral
