//! `marey triton`.

use insta::assert_snapshot;

use crate::{printed, run};

/// Runs `marey triton mem-spaces` on the examples.
fn mem_spaces(line: &str) -> String {
    run(&format!("triton mem-spaces {line}"))
}

#[test]
fn memory_spaces_are_a_table() {
    assert_snapshot!(mem_spaces("ptx/softmax.triton36.sm90.ptx ptx/matmul.triton39.sm100.ptx"), @r"
    exit code: 0
    --- stdout ---
      #  kernel   place                       space          operation             width  count  instruction  inlined at
      0  softmax  mem_space_kernels.py:37:21  GLOBAL         LOAD                   4x32      2  ld
      1  softmax  standard.py:191:40          SHARED         STORE                    32      2  st           mem_space_kernels.py:30:18 < mem_space_kernels.py:38:37
      2  softmax  standard.py:191:40          SHARED         LOAD                     32      2  ld           mem_space_kernels.py:30:18 < mem_space_kernels.py:38:37
      3  softmax  standard.py:293:36          SHARED         STORE                    32      2  st           mem_space_kernels.py:39:40
      4  softmax  standard.py:293:36          SHARED         LOAD                     32      2  ld           mem_space_kernels.py:39:40
      5  softmax  mem_space_kernels.py:39:24  GLOBAL         STORE                  4x32      2  st
      0  matmul   mem_space_kernels.py:43:1   SHARED         LOAD                     32      1  ld
      1  matmul   mem_space_kernels.py:51:17  TENSOR         STORE      16x32bx2.x32.b32      1  tcgen05.st
      2  matmul   mem_space_kernels.py:49:16  GLOBAL>SHARED  COPY                   16 B     16  cp.async
      3  matmul   mem_space_kernels.py:50:17  GLOBAL>SHARED  COPY                   16 B     16  cp.async
      4  matmul   mem_space_kernels.py:51:17  TENSOR         MMA               kind::f16      8  tcgen05.mma
      5  matmul   mem_space_kernels.py:51:17  TENSOR         LOAD       16x32bx2.x32.b32      1  tcgen05.ld
      6  matmul   mem_space_kernels.py:52:5   SHARED         STORE                  4x32      8  st
      7  matmul   mem_space_kernels.py:52:5   SHARED         LOAD            m8n8.x4.b16      8  ldmatrix
      8  matmul   mem_space_kernels.py:52:5   GLOBAL         STORE                  4x32      8  st
    --- stderr ---
    ");
}

#[test]
fn memory_spaces_are_json_on_request() {
    assert_snapshot!(printed(&mem_spaces("ptx/calls.triton36.sm90.ptx --json")), @r#"
    [
      {
        "file": "ptx/calls.triton36.sm90.ptx",
        "target": "sm_90a",
        "functions": [
          {
            "name": "calls",
            "is_kernel": true,
            "accesses": [
              {
                "operation": "STORE",
                "instruction": "st",
                "space": "GLOBAL",
                "source": null,
                "width": "32",
                "thread_bits": 32,
                "count": 1,
                "places": [
                  {
                    "file": "/src/mem_space_kernels.py",
                    "line": 98,
                    "column": 24
                  }
                ]
              }
            ]
          },
          {
            "name": "__main___$_doubled__Pi32__",
            "is_kernel": false,
            "accesses": [
              {
                "operation": "LOAD",
                "instruction": "ld",
                "space": "GLOBAL",
                "source": null,
                "width": "32",
                "thread_bits": 32,
                "count": 1,
                "places": [
                  {
                    "file": "/src/mem_space_kernels.py",
                    "line": 92,
                    "column": 24
                  }
                ]
              },
              {
                "operation": "STORE",
                "instruction": "st",
                "space": "GLOBAL",
                "source": null,
                "width": "32",
                "thread_bits": 32,
                "count": 1,
                "places": [
                  {
                    "file": "/src/mem_space_kernels.py",
                    "line": 92,
                    "column": 16
                  }
                ]
              }
            ]
          }
        ]
      }
    ]
    "#);
}

#[test]
fn an_unreadable_file_does_not_stop_the_others() {
    assert_snapshot!(mem_spaces("minimal.hatchet ptx/stack.triton39.sm90.ptx none.ptx collapsed"), @r"
    exit code: 2
    --- stdout ---
      #  kernel  place                       space   operation  width  count  instruction  inlined at
      0  stack   mem_space_kernels.py:74:12  GLOBAL  LOAD          32      1  ld           mem_space_kernels.py:85:13
      1  stack   mem_space_kernels.py:74:12  GLOBAL  LOAD          32      1  ld           mem_space_kernels.py:86:14
      2  stack   mem_space_kernels.py:87:5   LOCAL   STORE       2x32      2  st
      3  stack   mem_space_kernels.py:87:5   LOCAL   STORE         32      1  st
    --- stderr ---
    error: `minimal.hatchet`: it is not PTX: `.version` or `.target` is missing
    error: `none.ptx`: it cannot be read: No such file or directory (os error 2)
    error: `collapsed` contains no .ptx files
    hint: Triton writes them to ~/.triton/cache or TRITON_CACHE_DIR, unless TRITON_STORE_BINARY_ONLY is set
    ");
}
