"""Logical to private to budgeted plans. It proposes; the kernel recomputes and decides."""
