/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Functions that touch memory which may have gone (urxe/guarded.h). Each is a leaf that leaves the
 * stack alone, so at any of its instructions the return address is where it was at the first. When
 * one of them faults, the signal handler goes on at urxe_guarded_fault, which returns EFAULT from
 * it. All of them lie between urxe_guarded_begin and urxe_guarded_fault.
 */
#define EFAULT 14

#define BEGIN(name)              \
	.globl name;             \
	.hidden name;            \
	.type name, %function;   \
	.balign 32;              \
name:                            \
	.cfi_startproc
#define END(name)    \
	.cfi_endproc; \
	.size name, . - name

#if defined(__x86_64__) && defined(__LP64__)

#ifdef __CET__
#include <cet.h>
#else
#define _CET_ENDBR
#endif

	.text
BEGIN(urxe_guarded_begin)
END(urxe_guarded_begin)

/*
 * int (rdi: to, rsi: from, rdx: length). What is at the end is read first and written last, and may
 * overlap what was written before it: so no length needs a loop of its own for the rest. In 32s
 * where the processor has AVX, as libc's own.
 */
BEGIN(urxe_guarded_asm_copy)
	_CET_ENDBR
	cmpq	$16, %rdx
	jb	.Lbelow16
	cmpq	$32, %rdx
	ja	.Labove32
	movups	(%rsi), %xmm0
	movups	-16(%rsi,%rdx), %xmm1
	movups	%xmm0, (%rdi)
	movups	%xmm1, -16(%rdi,%rdx)
	xorl	%eax, %eax
	ret
.Labove32:
	cmpq	$64, %rdx
	ja	.Labove64
	movups	(%rsi), %xmm0
	movups	16(%rsi), %xmm1
	movups	-32(%rsi,%rdx), %xmm2
	movups	-16(%rsi,%rdx), %xmm3
	movups	%xmm0, (%rdi)
	movups	%xmm1, 16(%rdi)
	movups	%xmm2, -32(%rdi,%rdx)
	movups	%xmm3, -16(%rdi,%rdx)
	xorl	%eax, %eax
	ret
.Labove64:
	cmpb	$0, urxe_guarded_wide(%rip)
	jne	.Lwide
	movups	-64(%rsi,%rdx), %xmm4
	movups	-48(%rsi,%rdx), %xmm5
	movups	-32(%rsi,%rdx), %xmm6
	movups	-16(%rsi,%rdx), %xmm7
	leaq	-64(%rdi,%rdx), %r8
.Lloop:
	movups	(%rsi), %xmm0
	movups	16(%rsi), %xmm1
	movups	32(%rsi), %xmm2
	movups	48(%rsi), %xmm3
	movups	%xmm0, (%rdi)
	movups	%xmm1, 16(%rdi)
	movups	%xmm2, 32(%rdi)
	movups	%xmm3, 48(%rdi)
	addq	$64, %rsi
	addq	$64, %rdi
	cmpq	%r8, %rdi
	jb	.Lloop
	movups	%xmm4, (%r8)
	movups	%xmm5, 16(%r8)
	movups	%xmm6, 32(%r8)
	movups	%xmm7, 48(%r8)
	xorl	%eax, %eax
	ret
.Lwide:
	cmpq	$128, %rdx
	ja	.Labove128
	vmovdqu	(%rsi), %ymm0
	vmovdqu	32(%rsi), %ymm1
	vmovdqu	-64(%rsi,%rdx), %ymm2
	vmovdqu	-32(%rsi,%rdx), %ymm3
	vmovdqu	%ymm0, (%rdi)
	vmovdqu	%ymm1, 32(%rdi)
	vmovdqu	%ymm2, -64(%rdi,%rdx)
	vmovdqu	%ymm3, -32(%rdi,%rdx)
	vzeroupper
	xorl	%eax, %eax
	ret
.Labove128:
	vmovdqu	(%rsi), %ymm0
	vmovdqu	-128(%rsi,%rdx), %ymm4
	vmovdqu	-96(%rsi,%rdx), %ymm5
	vmovdqu	-64(%rsi,%rdx), %ymm6
	vmovdqu	-32(%rsi,%rdx), %ymm7
	leaq	-128(%rdi,%rdx), %r8
	vmovdqu	%ymm0, (%rdi)
	movq	%rdi, %r9
	orq	$31, %rdi
	incq	%rdi
	subq	%rdi, %r9
	subq	%r9, %rsi
	cmpq	%r8, %rdi
	jae	.Lwide_end
.Lwide_loop:
	vmovdqu	(%rsi), %ymm0
	vmovdqu	32(%rsi), %ymm1
	vmovdqu	64(%rsi), %ymm2
	vmovdqu	96(%rsi), %ymm3
	subq	$-128, %rsi
	vmovdqa	%ymm0, (%rdi)
	vmovdqa	%ymm1, 32(%rdi)
	vmovdqa	%ymm2, 64(%rdi)
	vmovdqa	%ymm3, 96(%rdi)
	subq	$-128, %rdi
	cmpq	%r8, %rdi
	jb	.Lwide_loop
.Lwide_end:
	vmovdqu	%ymm4, (%r8)
	vmovdqu	%ymm5, 32(%r8)
	vmovdqu	%ymm6, 64(%r8)
	vmovdqu	%ymm7, 96(%r8)
	vzeroupper
	xorl	%eax, %eax
	ret
.Lbelow16:
	cmpq	$8, %rdx
	jb	.Lbelow8
	movq	(%rsi), %rax
	movq	-8(%rsi,%rdx), %rcx
	movq	%rax, (%rdi)
	movq	%rcx, -8(%rdi,%rdx)
	xorl	%eax, %eax
	ret
.Lbelow8:
	cmpq	$4, %rdx
	jb	.Lbelow4
	movl	(%rsi), %eax
	movl	-4(%rsi,%rdx), %ecx
	movl	%eax, (%rdi)
	movl	%ecx, -4(%rdi,%rdx)
	xorl	%eax, %eax
	ret
.Lbelow4:
	testq	%rdx, %rdx
	jz	.Lnothing
	movq	%rdx, %r8
	shrq	$1, %r8
	movzbl	(%rsi), %eax
	movzbl	(%rsi,%r8), %ecx
	movzbl	-1(%rsi,%rdx), %r9d
	movb	%al, (%rdi)
	movb	%cl, (%rdi,%r8)
	movb	%r9b, -1(%rdi,%rdx)
.Lnothing:
	xorl	%eax, %eax
	ret
END(urxe_guarded_asm_copy)

/* int (rdi: word, rsi: to add, rdx: where what was there goes) */
BEGIN(urxe_guarded_asm_fetch_add)
	_CET_ENDBR
	lock xaddq %rsi, (%rdi)
	movq	%rsi, (%rdx)
	xorl	%eax, %eax
	ret
END(urxe_guarded_asm_fetch_add)

/* int (rdi: word, rsi: to compare, rdx: to put, rcx: where what was there goes) */
BEGIN(urxe_guarded_asm_compare_swap)
	_CET_ENDBR
	movq	%rsi, %rax
	lock cmpxchgq %rdx, (%rdi)
	movq	%rax, (%rcx)
	xorl	%eax, %eax
	ret
END(urxe_guarded_asm_compare_swap)

/* int (rdi: word, rsi: value) */
BEGIN(urxe_guarded_asm_store)
	_CET_ENDBR
	xchgq	%rsi, (%rdi)
	xorl	%eax, %eax
	ret
END(urxe_guarded_asm_store)

BEGIN(urxe_guarded_fault)
	cmpb	$0, urxe_guarded_wide(%rip)
	je	1f
	vzeroupper
1:	movl	$EFAULT, %eax
	ret
END(urxe_guarded_fault)

#elif defined(__aarch64__) && defined(__LP64__)

	.text
BEGIN(urxe_guarded_begin)
END(urxe_guarded_begin)

/* int (x0: to, x1: from, x2: length) */
BEGIN(urxe_guarded_asm_copy)
	cmp	x2, #64
	b.lo	2f
1:	ldp	q0, q1, [x1]
	ldp	q2, q3, [x1, #32]
	stp	q0, q1, [x0]
	stp	q2, q3, [x0, #32]
	add	x1, x1, #64
	add	x0, x0, #64
	sub	x2, x2, #64
	cmp	x2, #64
	b.hs	1b
2:	cmp	x2, #16
	b.lo	4f
3:	ldr	q0, [x1], #16
	str	q0, [x0], #16
	sub	x2, x2, #16
	cmp	x2, #16
	b.hs	3b
4:	cbz	x2, 6f
5:	ldrb	w3, [x1], #1
	strb	w3, [x0], #1
	subs	x2, x2, #1
	b.ne	5b
6:	mov	w0, #0
	ret
END(urxe_guarded_asm_copy)

/* int (x0: word, x1: to add, x2: where what was there goes) */
BEGIN(urxe_guarded_asm_fetch_add)
1:	ldaxr	x3, [x0]
	add	x4, x3, x1
	stlxr	w5, x4, [x0]
	cbnz	w5, 1b
	dmb	ish
	str	x3, [x2]
	mov	w0, #0
	ret
END(urxe_guarded_asm_fetch_add)

/* int (x0: word, x1: to compare, x2: to put, x3: where what was there goes) */
BEGIN(urxe_guarded_asm_compare_swap)
1:	ldaxr	x4, [x0]
	cmp	x4, x1
	b.ne	2f
	stlxr	w5, x2, [x0]
	cbnz	w5, 1b
2:	dmb	ish
	str	x4, [x3]
	mov	w0, #0
	ret
END(urxe_guarded_asm_compare_swap)

/* int (x0: word, x1: value) */
BEGIN(urxe_guarded_asm_store)
	stlr	x1, [x0]
	dmb	ish
	mov	w0, #0
	ret
END(urxe_guarded_asm_store)

BEGIN(urxe_guarded_fault)
	mov	w0, #EFAULT
	ret
END(urxe_guarded_fault)

#endif

	.section .note.GNU-stack, "", %progbits
